"""Options of other sources that are not supported: refused with the reason, and never suggested. No JVM."""

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
