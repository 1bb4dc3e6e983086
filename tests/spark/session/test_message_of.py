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


def test_other_errors_are_shown_whole() -> None:
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
