"""The functions that pages of ``docs`` have in blocks of code."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.documentation.support.source_texts import ROOT


def function_of(page: str, name: str) -> Callable[..., Any]:
    """Returns the function ``name`` that is in a block of code of the page."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    (code,) = [block for block in blocks if f"def {name}(" in block]
    names: dict[str, Any] = {}
    exec(compile(code, page, "exec"), names)
    made: Callable[..., Any] = names[name]
    return made
