"""Globs as Hadoop has them."""

from __future__ import annotations

import re
from typing import Final

RULE: Final = "every { needs its }, and every range such as [a-z] must rise"
"""What a glob must keep so that :func:`glob_regex` makes a regular expression of it, for errors."""


def glob_regex(glob: str) -> str:
    """Returns a regular expression for a glob of Hadoop: ``*``, ``?``, ``[a-z]``, ``[^a]``, ``{a,b}``."""
    parts, depth, at = [], 0, 0
    while at < len(glob):
        char = glob[at]
        close = glob.find("]", at + 2) if char == "[" else -1
        if close > 0:
            inside = glob[at + 1 : close].replace("\\", r"\\")
            parts.append(f"[^{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]")
            at = close
        elif char in "{}":
            depth += 1 if char == "{" else -1
            parts.append("(?:" if char == "{" else ")")
        elif char == "," and depth:
            parts.append("|")
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char))
        at += 1
    return "".join(parts)
