"""The tables of ``docs/options.md``, made from the lists of options.

``python -m tests.options_page`` writes them into the page; a test fails while the page differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flip27_stream.connectors.files.option_list import OPTIONS as FILES
from flip27_stream.connectors.kafka.options.source_options import OPTIONS as KAFKA
from flip27_stream.options.option import Option
from watermark_alignment.options import OPTIONS as ALIGNMENT

PAGE = Path(__file__).parents[1] / "docs" / "options.md"
SECTIONS: Mapping[str, Iterable[Option[Any]]] = {
    "Alignment and event time": ALIGNMENT,
    "Kafka": KAFKA,
    "Files": FILES,
}

_HEAD = "| option | meaning | allowed | default |\n|---|---|---|---|\n"
_TABLE = re.compile(re.escape(_HEAD) + r"(?:\|.*\n)*")


def row(option: Option[Any]) -> str:
    """Returns the line of an option in its table."""
    default = f"`{option.default}`" if option.default is not None else option.default_words or "no default"
    return f"| `{option.name}` | {option.meaning} | {option.kind.words} | {default} |\n"


def with_tables(page: str) -> str:
    """Returns the page with the tables made from the lists of options."""
    for title, options in SECTIONS.items():
        before, heading, rest = page.partition(f"## {title}\n")
        table = _HEAD + "".join(map(row, options))
        old = _TABLE.search(rest)
        page = before + heading + (rest.replace(old[0], table, 1) if old else rest)
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
