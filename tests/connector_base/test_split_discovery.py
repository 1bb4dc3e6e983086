"""Tests of the discovery of splits and of reports of lost data, which connectors share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from flip27_stream.connector_base.data_loss import report_data_loss
from flip27_stream.connector_base.split_discovery import SplitDiscovery
from flip27_stream.errors import AuthenticationError, DataLossError, UnreachableError

log = logging.getLogger(__name__)

Handler = Callable[[Any, BaseException | None], None]


class Context:
    """An enumerator context that keeps the handlers of ``call_async``: the initial one, then the periodic one."""

    def __init__(self) -> None:
        self.handlers: list[Handler] = []

    def call_async(self, _: Callable[[], Any], handler: Handler, **times: int) -> None:
        self.handlers.append(handler)


def started(found: list[str], period_ms: int | None = 100) -> tuple[SplitDiscovery[str], list[Handler]]:
    context = Context()
    discovery = SplitDiscovery[str](
        context,  # type: ignore[arg-type]
        found.append,
        log,
        "shards",
        failed="Failed to list shards.",
    )
    discovery.start(lambda: "a", period_ms)
    return discovery, context.handlers


def test_without_a_period_there_is_one_discovery() -> None:
    assert len(started([], None)[1]) == 1


def test_later_discoveries_wait_for_the_initial_one_and_end_when_the_run_is_fixed() -> None:
    found: list[str] = []
    discovery, (initial, later) = started(found)
    later("early", None)
    initial("first", None)
    later("second", None)
    discovery.frozen = True
    later("third", None)
    assert found == ["first", "second"]


def test_error_of_the_initial_discovery_fails_the_query() -> None:
    _, (initial, _later) = started([])
    with pytest.raises(UnreachableError, match=r"^Failed to list shards\. No answer\.$"):
        initial(None, UnreachableError("No answer."))
    with pytest.raises(ZeroDivisionError):
        initial(None, ZeroDivisionError())


def test_error_of_a_later_discovery_that_ends_before_the_initial_one_is_ignored() -> None:
    """The initial discovery, which is slower, fails too, and its error says what failed."""
    _, (initial, later) = started([])
    later(None, AuthenticationError("Refused."))
    with pytest.raises(AuthenticationError, match=r"^Failed to list shards\. Refused\.$"):
        initial(None, AuthenticationError("Refused."))


def test_later_error_is_logged_unless_credentials_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    _, (initial, later) = started([])
    initial("first", None)
    later(None, UnreachableError("No answer."))
    assert caplog.messages == ["Looking for new shards failed; it is tried again: No answer."]
    with pytest.raises(AuthenticationError):
        later(None, AuthenticationError("Refused."))


def test_lost_data_is_an_error_or_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(
        DataLossError, match=r"^Gone\. To go on with the data that is left, set option 'failOnDataLoss'"
    ):
        report_data_loss(log, "Gone.", fail=True)
    report_data_loss(log, "Gone.", fail=False)
    assert caplog.messages == ["Gone. The query goes on, since option 'failOnDataLoss' is false."]
