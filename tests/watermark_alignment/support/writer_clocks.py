"""Commits of writers whose clocks differ from that of the store."""

from __future__ import annotations

import json
from pathlib import Path

from watermark_alignment.table.split_watermark_table import SplitWatermarkTable


def shift_clock(table: SplitWatermarkTable, ms: int) -> None:
    """Makes the newest commit of the handle ``table`` one of a writer whose clock is ``ms`` ahead."""
    path = Path(table.uri) / "_delta_log" / f"{table.delta.version():020}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] += ms
    path.write_text("\n".join(map(json.dumps, actions)))
