"""A Spark that lacks what streaming sources need is refused in one sentence (fact 32). So is what is no session, or a
stopped one. No JVM.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, TimestampType

import flip27_stream
from flip27_stream.errors import UnsupportedSparkError
from flip27_stream.spark.session import spark_features
from flip27_stream.spark.session.running_session import check_running
from flip27_stream.spark.session.spark_features import arrow_schema, check_admission_control

READ_LIMITS = "pyspark.sql.streaming.datasource"


def test_a_spark_without_read_limits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark without read limits, such as 4.0 and 4.1, is refused. The error names the version that is needed and
    the installed version.
    """
    monkeypatch.setitem(sys.modules, READ_LIMITS, None)
    monkeypatch.setattr(pyspark, "__version__", "4.1.1")

    with pytest.raises(UnsupportedSparkError, match=r"needs Spark 4\.2 .*; this is Spark 4\.1\.1"):
        flip27_stream.register(cast(Any, None))
    with pytest.raises(UnsupportedSparkError, match=r"needs Spark 4\.2 "):
        flip27_stream.data_source(cast(Any, None), "mine")


def test_a_runtime_that_has_the_feature_is_taken_whatever_its_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, READ_LIMITS, ModuleType(READ_LIMITS))
    monkeypatch.setattr(pyspark, "__version__", "4.0.0")

    check_admission_control()


@pytest.mark.parametrize("named", [True, False], ids=["4.2", "4.1"])
def test_timestamps_are_utc_with_and_without_a_time_zone_to_name(
    monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """Timestamps are in UTC, whether ``to_arrow_schema`` takes a time zone or not. Before Spark 4.2 it takes no time
    zone, and uses UTC.
    """

    def old(schema: StructType) -> pa.Schema:
        return to_arrow_schema(schema, timezone="UTC")

    monkeypatch.setattr(spark_features, "_NAMES_TIMEZONE", named)
    monkeypatch.setattr(spark_features, "to_arrow_schema", to_arrow_schema if named else old)

    assert arrow_schema(StructType().add("at", TimestampType())).field("at").type.tz == "UTC"


class ConnectSession:
    """A stand-in for a session of Spark Connect."""

    readStream = None

    is_stopped = False


@pytest.mark.parametrize("given", [None, SparkSession, SparkSession.builder, SimpleNamespace()])
def test_what_is_no_session_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"Give register\(\) a SparkSession, .*, not "):
        flip27_stream.register(cast(Any, given))


def test_a_stopped_session_of_spark_connect_is_refused() -> None:
    session = ConnectSession()
    check_running(session)
    session.is_stopped = True
    with pytest.raises(ValueError, match="is stopped"):
        check_running(session)


def test_a_session_that_does_not_tell_whether_it_runs_is_used() -> None:
    """A platform can guard the methods of its JVM."""

    class GuardedSession:
        readStream = None

        @property
        def sparkContext(self) -> object:
            raise PySparkException("not allowed", errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED")

    check_running(GuardedSession())
