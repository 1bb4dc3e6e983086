"""The setting that hides secrets, in sessions where settings cannot be read or changed (facts 30 and 31). No JVM."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flip27_stream.spark.session.redaction import REDACTION_SETTING, SECRETS, hide_secrets

HIDDEN_BY_DEFAULT = "(?i)secret|password|token|access[.]?key|credential"
"""``spark.redaction.regex`` as Spark 4.3 ships it."""


class ConnectSettings:
    """A stand-in for ``spark.conf`` of a Spark Connect server of 4.2.1 or later.

    Args:
        values: What is set.
        redacted: ``spark.redaction.regex``; a setting whose key or value matches cannot be read.
        frozen: Whether changes are refused, as in the file of a declarative pipeline.
    """

    def __init__(self, values: dict[str, str], redacted: str, *, frozen: bool = False) -> None:
        self.values = values
        self._redacted = re.compile(redacted)
        self._frozen = frozen

    def get(self, key: str) -> str:
        value = self.values[key]
        if self._redacted.search(key) or self._redacted.search(value):
            raise PySparkException("hidden", errorClass="SQL_CONF_NOT_FOUND")
        return value

    def set(self, key: str, value: str) -> None:
        if self._frozen:
            condition = "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.SET_RUNTIME_CONF"
            raise PySparkException("no changes", errorClass=condition)
        self.values[key] = value


class SessionOfSettings:
    def __init__(self, conf: ConnectSettings) -> None:
        self.conf = conf


def hide(conf: ConnectSettings) -> str:
    hide_secrets(cast(SparkSession, cast(Any, SessionOfSettings(conf))))
    return conf.values[REDACTION_SETTING]


def test_a_server_does_not_hide_the_setting_that_hides_secrets() -> None:
    """A server does not hide the setting that hides secrets. Registering a second time reads back what the first time
    wrote.
    """
    conf = ConnectSettings({REDACTION_SETTING: "(?i)url"}, HIDDEN_BY_DEFAULT)

    once = hide(conf)

    assert SECRETS in once
    assert hide(conf) == once
    assert re.search(SECRETS.removeprefix("(?i)"), "my credential")


def test_a_setting_that_the_server_hides_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    conf = ConnectSettings({REDACTION_SETTING: "(?i)my-secret"}, HIDDEN_BY_DEFAULT)

    assert hide(conf) == "(?i)my-secret"

    (warning,) = caplog.messages
    assert REDACTION_SETTING in warning
    assert f"Add |({SECRETS}) to the value that you set" in warning


def test_a_pipeline_is_told_what_to_configure(caplog: pytest.LogCaptureFixture) -> None:
    conf = ConnectSettings({REDACTION_SETTING: "(?i)url"}, HIDDEN_BY_DEFAULT, frozen=True)

    assert hide(conf) == "(?i)url"

    (warning,) = caplog.messages
    assert (
        f"Set it under 'configuration:' in the pipeline's specification, to '((?i)url)|({SECRETS})'"
        in warning
    )


def test_other_errors_of_the_session_are_raised() -> None:
    class Broken(ConnectSettings):
        def get(self, key: str) -> str:
            raise PySparkException("no session", errorClass="NO_ACTIVE_SESSION")

    with pytest.raises(PySparkException, match="no session"):
        hide(Broken({}, HIDDEN_BY_DEFAULT))
