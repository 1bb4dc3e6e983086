"""The options that take the place of Flink's, for the error about an unknown option.

``docs/flink.md`` has the same names, for users.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

REPLACED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "scan.startup.mode": ("startingOffsets", "startingTimestamp"),
    "scan.startup.timestamp-millis": ("startingTimestamp",),
    "scan.startup.specific-offsets": ("startingOffsets",),
    "scan.parallelism": ("minPartitions",),
    "topic-pattern": ("subscribePattern",),
    "commit.offsets.on.checkpoint": ("scan.commit-offsets",),
    "format": ("value.format", "files.format"),
    "key.format": (),
    "key.fields": (),
    "key.fields-prefix": (),
    "value.fields-include": (),
    "stream.arn": ("streamARN",),
    "aws.region": ("region",),
    "source.init.position": ("initialPosition",),
    "source.init.timestamp": ("initialPosition",),
    "shard.discovery.interval": ("shardFetchInterval",),
    "shard.get-records.max-record-count": ("maxRecordsPerFetch",),
    "table.exec.source.idle-timeout": ("scan.watermark.idle-timeout",),
    "pipeline.watermark-alignment.allow-unaligned-source-splits": (
        "scan.watermark.alignment.allow-unaligned-source-splits",
    ),
}
"""The names of the options of this package that replace an option of Flink, by Flink's name in lower case.

They are empty for an option of Flink that nothing replaces.
"""

_OF_CLIENT: Final = "properties."
"""The prefix of the options of Kafka's client in Flink's tables."""


def hint_for(name: str, known: Collection[str]) -> str | None:
    """Returns what an error says about an option of Flink; ``None`` if the source has nothing to do with the name.

    Args:
        name: The unknown option, in lower case.
        known: The options of the source, in lower case.
    """
    here = REPLACED_BY.get(name)
    if name.startswith(_OF_CLIENT):
        here = (f"kafka.{name.removeprefix(_OF_CLIENT)}",)
    if here is None:
        return None
    if not here:
        return "It is an option of Flink that has no counterpart here: see docs/flink.md."
    options = " or ".join(f"'{option}'" for option in here if option.lower() in known)
    return f"It is an option of Flink; here it is {options}." if options else None
