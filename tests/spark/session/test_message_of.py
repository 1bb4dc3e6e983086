"""``message_of`` finds the message of this project's error in the text of the error that Spark raises."""

from __future__ import annotations

import pytest

from flip27_stream.errors import DataLossError, UnreachableError, message_of
from tests.spark.support.kafka_queries import KafkaQueries, finish

WRAPPED = """[STREAM_FAILED] Query [id = 1c1b, runId = e0f3] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform latestOffset: \
Traceback (most recent call last):
  File "/lib/pyspark/sql/streaming/python_streaming_source_runner.py", line 281, in main
flip27_stream.errors.UnreachableError: No Kafka broker answered at 127.0.0.1:1 within 15 s.
Check option 'kafka.bootstrap.servers'.{more}
"""


@pytest.mark.parametrize(
    "more",
    [
        "\n SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 1c1b]",
        "\n\n\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)",
        "",
    ],
)
def test_the_message_is_found_in_the_text_of_spark(more: str) -> None:
    found = (
        "UnreachableError: No Kafka broker answered at 127.0.0.1:1 within 15 s.\n"
        "Check option 'kafka.bootstrap.servers'."
    )
    assert message_of(RuntimeError(WRAPPED.replace("{more}", more))) == found


@pytest.mark.parametrize(
    ("raised", "found"),
    [
        ("ValueError: bad JSON from the hub\nand more", "ValueError: bad JSON from the hub\nand more"),
        ("KeyError", "KeyError"),
        ("shop.errors.HubError: gone", "shop.errors.HubError: gone"),
    ],
)
def test_an_error_of_a_source_of_ones_own_is_found(raised: str, found: str) -> None:
    """Spark's text has the traceback of a chain of errors. The last one is the one that was raised."""
    ours = "flip27_stream.errors.UnreachableError: No Kafka broker"
    last = f'Traceback (most recent call last):\n  File "a.py", line 1, in look\n    ~~^~~\n{raised}\n'
    text = WRAPPED.replace(ours, "OSError: No Kafka broker")
    text = text.replace("{more}", f"\n\nDuring handling of the above exception:\n\n{last}")
    whole = f"{text} SQLSTATE: 38000\n=== Streaming Query ===\nCurrent State: ACTIVE"
    assert message_of(RuntimeError(whole)) == found


def test_other_errors_are_shown_whole() -> None:
    whole = "[STREAM_FAILED] terminated with exception: assertion failed\n\tat scala.Predef"
    assert message_of(whole) == whole
    assert message_of(ValueError("something else")) == "something else"
    assert message_of(DataLossError("gone")) == "DataLossError: gone"
    assert message_of("flip27_stream.errors.DataLossError: gone") == "DataLossError: gone"


@pytest.mark.jvm
def test_the_message_of_a_failed_query_stands_near_its_begin(queries: KafkaQueries) -> None:
    stream = queries.stream(
        "nothing", {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "1000"}
    )
    with pytest.raises(Exception, match="terminated with exception") as failed:
        finish(queries.start(stream))
    found = message_of(failed.value)
    assert found.startswith(f"{UnreachableError.__name__}: No Kafka broker answered at 127.0.0.1:1")
    assert "SQLSTATE" not in found
    before, _, _ = str(failed.value).partition("No Kafka broker answered")
    assert before.count('\n  File "') <= 4, "frames of the traceback"
