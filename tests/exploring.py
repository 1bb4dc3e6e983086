"""How many examples a property is tried with: few in a usual run, which repeats itself, and many with
``FLIP27_EXPLORE=1``, each time others."""

from __future__ import annotations

import os
from typing import Final

EXPLORES: Final = "FLIP27_EXPLORE" in os.environ
_LEAST, _SHARE = 20, 5


def examples(many: int) -> int:
    """``many``, or a fifth of it."""
    return many if EXPLORES else max(many // _SHARE, _LEAST)
