"""The texts in the source of the project's packages, and whether one of them is a quoted message."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = "flip27_stream", "offsets", "watermark_alignment"
VARIABLE = "\0"


def template(node: ast.expr) -> str:
    """Returns the text of an expression, with ``VARIABLE`` in place of each part that only a run knows."""
    match node:
        case ast.Constant(value=str(text)):
            return re.sub(r"%[\d.]*[sdgr]", VARIABLE, text)
        case ast.JoinedStr(values=parts):
            return "".join(template(part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return template(left) + template(right)
        case _:
            return VARIABLE


def texts_in(node: ast.AST) -> Iterator[str]:
    """Yields the texts of a piece of source."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant | ast.JoinedStr | ast.BinOp):
            yield template(inner)


@cache
def texts_of(*packages: str) -> tuple[str, ...]:
    """Returns every text in the source of some packages."""
    paths = [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]
    return tuple(text for path in paths for text in texts_in(ast.parse(path.read_text())))


def ours() -> tuple[str, ...]:
    """Returns every text in the source of the project's packages."""
    return texts_of(*PACKAGES)


def is_said(message: str, texts: tuple[str, ...]) -> bool:
    """Returns whether one of ``texts`` has the fixed parts of ``message``, in their order."""
    parts = [part for part in re.split("…", message) if part.strip(" .:;'")]
    pattern = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
    return any(pattern.search(text) for text in texts)
