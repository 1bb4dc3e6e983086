"""The tables of options in the pages, made from the lists of options.

``python -m tests.documentation.options_page`` writes them into the pages; a test fails while a page differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flip27_stream.connectors.files.options.option_list import OPTIONS as FILES
from flip27_stream.connectors.kafka.options.source_options import OPTIONS as KAFKA
from flip27_stream.connectors.kinesis.options.option_list import OPTIONS as KINESIS
from flip27_stream.connectors.pulsar.options.option_list import OPTIONS as PULSAR
from flip27_stream.options.option import Option
from watermark_alignment.options import OPTIONS as ALIGNMENT

DOCS = Path(__file__).parents[2] / "docs"
SECTIONS: Mapping[str, Iterable[Option[Any]]] = {
    "Alignment and event time": ALIGNMENT,
    "Kafka": KAFKA,
    "Files": FILES,
}
"""The lists of ``docs/options.md``, by their headings."""
LISTS: Mapping[str, Mapping[str, Iterable[Option[Any]]]] = {
    "options.md": SECTIONS,
    "kinesis.md": {"Options": KINESIS},
    "pulsar.md": {"Options": PULSAR},
}
"""The lists of each page, by their headings."""

_HEAD = "| option | meaning | allowed | default |\n|---|---|---|---|\n"
_TABLE = re.compile(re.escape(_HEAD) + r"(?:\|.*\n)*")


def row(option: Option[Any]) -> str:
    """Returns the line of an option in its table."""
    default = f"`{option.default}`" if option.default is not None else option.default_words or "no default"
    return f"| `{option.name}` | {option.meaning} | {option.kind.words} | {default} |\n"


def with_tables(page: str, sections: Mapping[str, Iterable[Option[Any]]] = SECTIONS) -> str:
    """Returns the page with the tables made from the lists of options."""
    for title, options in sections.items():
        before, heading, rest = page.partition(f"## {title}\n")
        table = _HEAD + "".join(map(row, options))
        old = _TABLE.search(rest)
        page = before + heading + (rest.replace(old[0], table, 1) if old else rest)
    return page


if __name__ == "__main__":
    for name, sections in LISTS.items():
        page = DOCS / name
        page.write_text(with_tables(page.read_text(), sections))
