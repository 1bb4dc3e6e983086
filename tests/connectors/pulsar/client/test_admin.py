"""The client of the admin API meets servers that answer badly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from flip27_stream.connectors.pulsar.client.admin import topics_of
from flip27_stream.connectors.pulsar.options.source_options import parse_pulsar_options
from flip27_stream.errors import AuthenticationError, ConnectorError, MissingTopicError, UnreachableError
from tests.connectors.support.http_answers import Answer, AnswerHandler, QuietServer, serving

SECRET = "eyJ-the-token"
AUTHENTICATED = {
    "pulsar.client.authPluginClassName": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
    "pulsar.client.authParams": f"token:{SECRET}",
}


@contextmanager
def admin_api(answer: Answer | None) -> Iterator[tuple[str, list[Mapping[str, str]]]]:
    """Yields the URL of a server that gives ``answer``, and the headers of the requests that it got.

    ``None`` is an answer that does not end: the server sends a byte again and again.
    """
    got: list[Mapping[str, str]] = []

    class Handler(AnswerHandler):
        def do_GET(self) -> None:
            got.append(dict(self.headers))
            if answer is not None:
                self.send_answer(answer)
                return
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b" " * (1 << 20))

    with QuietServer(("127.0.0.1", 0), Handler) as server, serving(server):
        yield f"http://127.0.0.1:{server.server_port}", got


def list_topics(url: str, **more: str) -> list[str]:
    options = {
        "service.url": "pulsar://127.0.0.1:1",
        "topicsPattern": "persistent://shop/web/.*",
        "admin.url": url,
        "pulsar.client.operationTimeoutMs": "2000",
        **more,
    }
    return topics_of(parse_pulsar_options(options).connection, "shop/web")


def test_the_topics_of_a_namespace_are_listed_with_the_token() -> None:
    names = b'["persistent://shop/web/a-partition-0", "persistent://shop/web/b"]'
    with admin_api((200, names)) as (url, got):
        assert "persistent://shop/web/a" in list_topics(url, **AUTHENTICATED)
    assert {headers["Authorization"] for headers in got} == {f"Bearer {SECRET}"}


def test_topics_that_brokers_keep_for_themselves_are_left_out() -> None:
    """PU-01: brokers before Pulsar 2.11 list them, and a pattern such as ``.*`` would read them."""
    own = ["__change_events", "__transaction_buffer_snapshot", "__transaction_buffer_snapshot_segments"]
    own += ["a-partition-0-sub__transaction_pending_ack"]
    topics = ["__mine", "a", "about__change_events"]
    names = json.dumps([f"persistent://shop/web/{name}" for name in own + topics]).encode()
    with admin_api((200, names)) as (url, _):
        assert [name.rpartition("/")[2] for name in list_topics(url)] == topics


def test_a_redirect_does_not_carry_the_token_to_another_server() -> None:
    """The other server gets no request, and the error says where to give its address."""
    with admin_api((200, b"[]")) as (other, got_there):
        moved = 307, b"", {"Location": f"{other}/admin/v2/persistent/shop/web"}
        with (
            admin_api(moved) as (url, _),
            pytest.raises(ConnectorError, match=r"307 .*'admin\.url'") as refused,
        ):
            list_topics(url, **AUTHENTICATED)
    assert not got_there
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "error", "remedy"),
    [
        pytest.param((401, b""), AuthenticationError, "'pulsar.client.authParams'", id="token refused"),
        pytest.param((404, b""), MissingTopicError, "'topicsPattern'", id="no such namespace"),
        pytest.param((409, b""), ConnectorError, "'admin.url'", id="refused"),
        pytest.param((503, b""), UnreachableError, "'admin.url'", id="temporary"),
        pytest.param((200, b"<html>"), ConnectorError, "not JSON", id="another server"),
        pytest.param(None, UnreachableError, "does not end", id="endless"),
    ],
)
def test_a_bad_answer_is_named_with_its_remedy(
    answer: Answer | None, error: type[ConnectorError], remedy: str
) -> None:
    with admin_api(answer) as (url, _), pytest.raises(error) as refused:
        list_topics(url, **AUTHENTICATED)
    assert remedy in str(refused.value)
    assert "shop/web" in str(refused.value)
    assert SECRET not in str(refused.value)
