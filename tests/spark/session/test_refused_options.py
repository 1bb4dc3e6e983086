"""Options that are wrong, and those of other sources that are not supported: refused with the reason. No JVM."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flip27_stream.connectors.files import FileSourceFactory
from flip27_stream.connectors.files.options.option_list import REFUSED as OF_FILES
from flip27_stream.connectors.kafka import KafkaSourceFactory
from flip27_stream.connectors.kafka.options.java_client_options import FORBIDDEN as OF_KAFKA
from flip27_stream.connectors.kinesis import KinesisSourceFactory
from flip27_stream.connectors.kinesis.options.option_list import REFUSED as OF_KINESIS
from flip27_stream.connectors.pulsar import PulsarSourceFactory
from flip27_stream.connectors.pulsar.options.option_list import REFUSED as OF_PULSAR
from flip27_stream.errors import OptionError
from flip27_stream.spark.data_source import Flip27DataSource
from watermark_alignment.options import REFUSED as OF_ALIGNMENT

FORMATS: list[tuple[Any, dict[str, str], Any]] = [
    (FileSourceFactory, {"path": "/data"}, OF_FILES),
    (KafkaSourceFactory, {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}, OF_KAFKA),
    (KinesisSourceFactory, {"streamName": "clicks", "region": "eu-west-1"}, OF_KINESIS),
    (PulsarSourceFactory, {"service.url": "pulsar://localhost:6650", "topic": "t"}, OF_PULSAR),
]


@pytest.mark.parametrize(
    ("factory", "options", "name"),
    [(factory, options, name) for factory, options, names in FORMATS for name in names],
)
def test_a_refused_option_is_not_called_unknown(factory: Any, options: dict[str, str], name: str) -> None:
    format_ = type("Format", (Flip27DataSource,), {"factory": factory()})
    with pytest.raises(OptionError, match=r"is not supported|cannot be honoured"):
        format_({**options, name: "true"})


@pytest.mark.parametrize("name", OF_ALIGNMENT)
@pytest.mark.parametrize(("factory", "options"), [(factory, options) for factory, options, _ in FORMATS])
def test_op_01_when_watermarks_are_emitted_cannot_be_chosen(
    factory: Any, options: dict[str, str], name: str
) -> None:
    format_ = type("Format", (Flip27DataSource,), {"factory": factory()})
    with pytest.raises(OptionError, match=rf"^Option '{name}' cannot be honoured: .* micro-batch"):
        format_({**options, name.upper(): "on-event"})


@pytest.mark.parametrize(("factory", "options"), [(factory, options) for factory, options, _ in FORMATS])
def test_a_refused_option_or_one_without_effect_is_not_suggested(
    factory: Any, options: dict[str, str]
) -> None:
    format_ = type("Format", (Flip27DataSource,), {"factory": factory()})
    unsupported = set(factory.option_names.values()) - set(factory.supported_options.values())
    assert unsupported
    for misspelt in ("zzz", "kafka.foo.bar", *(f"{name}z" for name in unsupported)):
        with pytest.raises(OptionError, match=f"Unknown option '{misspelt.lower()}'") as refused:
            format_({**options, misspelt: "true"})
        suggested = set(re.findall(r"[\w.-]*\w", str(refused.value).partition("'. ")[2]))
        assert not suggested & unsupported


GROUP, MAX_DRIFT, TABLE = (f"scan.watermark.alignment.{name}" for name in ("group", "max-drift", "table"))
KAFKA = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "a"}
ALIGNED = KAFKA | {GROUP: "g", MAX_DRIFT: "1 s", TABLE: "/nowhere"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (KAFKA | {"startingOfsets": "earliest"}, ["startingofsets", "'startingOffsets'"]),
        (KAFKA | {"scan.watermark.idle-timout": "1 s"}, ["idle-timout", "'scan.watermark.idle-timeout'"]),
        (KAFKA | {"path": "x"}, ["path"]),
        (KAFKA | {"kafka.no.such.setting": "1"}, ["kafka.no.such.setting"]),
        (ALIGNED | {MAX_DRIFT: "5 parsecs"}, [MAX_DRIFT, "5 parsecs", "5 minutes"]),
        (ALIGNED | {MAX_DRIFT: "-1 s"}, [MAX_DRIFT, "-1 s", "5 minutes"]),
        (ALIGNED | {"scan.watermark.implausible-event-time": "drop"}, ["drop", "fail", "skip", "pass"]),
        (ALIGNED | {"scan.watermark.event-time": "tyme"}, ["event-time", "tyme", "timestamp"]),
        ({k: v for k, v in ALIGNED.items() if k != MAX_DRIFT}, [MAX_DRIFT, "missing"]),
        ({k: v for k, v in ALIGNED.items() if k != TABLE}, [TABLE]),
        ({k: v for k, v in ALIGNED.items() if k != GROUP}, [GROUP, "missing"]),
        (KAFKA | {TABLE: "/nowhere"}, [GROUP, "missing"]),
        (KAFKA | {"startingOffsets": "soon"}, ["startingOffsets", "soon", "earliest", "latest"]),
        (KAFKA | {"maxOffsetsPerTrigger": "0"}, ["maxOffsetsPerTrigger", "'0'"]),
        (KAFKA | {"failOnDataLoss": "perhaps"}, ["failOnDataLoss", "perhaps", "true, false"]),
        (KAFKA | {"subscribePattern": "a.*"}, ["Only one of", "subscribe, subscribePattern, assign"]),
        ({"subscribe": "a"}, ["kafka.bootstrap.servers", "must be specified"]),
        ({"kafka.bootstrap.servers": "127.0.0.1:9"}, ["One of", "subscribe, subscribePattern, assign"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_option_is_refused_before_the_query_starts(options: dict[str, str], words: list[str]) -> None:
    """The error of a wrong option names the option, the value and what is allowed."""
    format_ = type("Format", (Flip27DataSource,), {"factory": KafkaSourceFactory()})
    with pytest.raises(OptionError, match=r"\w") as refused:
        format_(options).schema()
    assert [word for word in words if word not in str(refused.value)] == []
