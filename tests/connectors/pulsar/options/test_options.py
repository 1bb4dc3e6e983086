"""Options of the Pulsar source have the names of StreamNative's source. An option that cannot be
honoured is refused by name.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from flip27_stream.connectors.pulsar import PulsarSource, PulsarSourceFactory
from flip27_stream.connectors.pulsar.options.option_list import OPTIONS, REFUSED, WITHOUT_EFFECT
from flip27_stream.connectors.pulsar.options.source_options import TopicPattern, parse_pulsar_options
from flip27_stream.connectors.pulsar.options.start import AtTime, StartKind
from flip27_stream.connectors.pulsar.positions import position_at
from flip27_stream.errors import OptionError
from flip27_stream.spark.session.redaction import SECRETS
from tests.connectors.support.refused_options import refusal_by
from tests.documentation.options_page import row

PAGE = (Path(__file__).parents[4] / "docs" / "pulsar.md").read_text()
GIVEN = {"service.url": "pulsar://localhost:6650", "topic": "clicks"}
FULL = "persistent://public/default/clicks"
TOKEN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


refusal = partial(refusal_by, parse_pulsar_options, GIVEN)
"""Returns the message for options that are refused beside those of :data:`GIVEN`."""


def test_topics_are_parsed() -> None:
    assert parse_pulsar_options(GIVEN).topics == (FULL,)
    several = {"SERVICE.URL": "pulsar+ssl://a:1,b:2", "topics": "a, persistent://t/n/b,a"}
    assert parse_pulsar_options(several).topics == ("persistent://public/default/a", "persistent://t/n/b")
    assert "'topic', 'topics' and 'topicsPattern'" in refusal(topics="b")
    assert "not persistent" in refusal(topic="non-persistent://public/default/clicks")
    assert "persistent://tenant/namespace/topic" in refusal(topic="a/b")
    with pytest.raises(OptionError, match=r"'service\.url'"):
        parse_pulsar_options({"topic": "clicks"})
    assert "pulsar+ssl://" in refusal(**{"service.url": "http://localhost"})


def test_topics_by_pattern_need_the_admin_api() -> None:
    pattern = {"service.url": "pulsar://localhost:6650", "topicsPattern": "persistent://t/n/cl.*"}
    with pytest.raises(OptionError, match=r"'admin\.url'"):
        parse_pulsar_options(pattern)
    found = parse_pulsar_options({**pattern, "admin.url": "http://localhost:8080"}).topics
    assert found == TopicPattern("t/n", "cl.*")
    assert isinstance(found, TopicPattern)
    assert found.matches("persistent://t/n/clicks")
    assert not found.matches("persistent://t/n/views")
    with pytest.raises(OptionError, match="regular expression"):
        parse_pulsar_options({**pattern, "topicsPattern": "cl(", "admin.url": "http://localhost:8080"})


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tls", "tlsCertFile:/c,tlsKeyFile:/k"),
        ("oauth2", '{"issuerUrl": "https://i", "privateKey": "file:///k"}'),
        ("basic", '{"userId": "u", "password": "p"}'),
    ],
)
def test_topics_by_pattern_are_refused_with_other_methods_than_token(method: str, params: str) -> None:
    """The page says so, for the admin API would need another client for them."""
    given = {
        "service.url": "pulsar://localhost:6650",
        "admin.url": "http://localhost:8080",
        "topicsPattern": "cl.*",
        "pulsar.client.authPluginClassName": method,
        "pulsar.client.authParams": params,
    }
    with pytest.raises(OptionError, match="Name the topics in option 'topics'"):
        parse_pulsar_options(given)
    assert "With `tls`, `oauth2` or `basic` the pattern is refused" in " ".join(PAGE.split())


def test_starting_positions_are_parsed() -> None:
    def begin(partition: str = FULL, **more: str) -> object:
        return parse_pulsar_options({**GIVEN, **more}).start.of(partition)

    assert begin() is StartKind.LATEST
    assert begin(startingOffsets="Earliest") is StartKind.EARLIEST
    assert parse_pulsar_options(GIVEN, bounded=True).start.otherwise is StartKind.EARLIEST
    assert begin(startingTime="1700000000000") == AtTime(1_700_000_000_000)
    assert begin(startingTime='{"clicks": 5}') == AtTime(5)
    offsets = (
        '{"clicks": "earliest", "clicks-partition-1": "12:5", "clicks-partition-2": [8, 12, 16, 5, 32, 3]}'
    )
    found = [begin(f"{FULL}-partition-{i}", startingOffsets=offsets) for i in range(3)]
    assert found == [StartKind.EARLIEST, position_at(12, 5), position_at(12, 5, 3)]
    assert begin("persistent://public/default/other", startingOffsets=offsets) is StartKind.LATEST


def test_message_ids_of_the_client_are_parsed() -> None:
    pulsar = pytest.importorskip("pulsar")
    for parts in ((12, 5, 3), (2**40, 0, -1)):
        text = str(list(pulsar.MessageId(-1, *parts).serialize()))
        options = {**GIVEN, "startingOffsets": f'{{"clicks": {text}}}'}
        assert parse_pulsar_options(options).start.of(FULL) == position_at(*parts)


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "first"},
        {"startingOffsets": '{"clicks": 5}'},
        {"startingOffsets": '{"clicks": [8]}'},
        {"startingTime": "yesterday"},
        {"startingTime": '{"clicks": "1"}'},
        {"startingOffsets": "earliest", "startingTime": "1"},
        {"pulsar.client.authParams": "token:abc"},
        {"pulsar.client.authPluginClassName": TOKEN},
        {"pulsar.client.authPluginClassName": "kerberos", "pulsar.client.authParams": "a"},
        {"maxBytesPerTrigger": "0"},
        {"pollTimeout": "1"},
    ],
)
def test_wrong_values_are_named(given: dict[str, str]) -> None:
    assert next(iter(given)).lower() in refusal(**given).lower()


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_options_are_refused_by_name(name: str) -> None:
    assert f"'{name}'" in refusal(**{name: "any"})


def test_options_without_effect_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    parse_pulsar_options({**GIVEN, **dict.fromkeys(WITHOUT_EFFECT, "true")})
    assert all(f"'{name}' has no effect" in caplog.text for name in WITHOUT_EFFECT)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("token", "token:s3cret"),
        ("tls", "s3cret"),
        ("basic", "s3cret"),
        ("oauth2", "s3cret"),
        ("oauth2", '{"s3cret":' + 100_000 * "["),
    ],
    ids=["token", "tls", "basic", "oauth2", "oauth2, nested too deeply"],
)
def test_secrets_are_not_shown(method: str, params: str) -> None:
    given = {**GIVEN, "pulsar.client.authPluginClassName": method, "pulsar.client.authParams": params}
    if method == "token":
        options = parse_pulsar_options(given)
        assert options.connection.auth_params == params
        assert "s3cret" not in repr(options)
        assert "s3cret" not in repr(PulsarSource(given).fingerprint)
        return
    with pytest.raises(OptionError, match=r"'pulsar\.client\.authParams'") as refused:
        parse_pulsar_options(given)
    assert "s3cret" not in str(refused.value)


def test_spark_hides_the_secret_options() -> None:
    secret = [option.name for option in OPTIONS if option.secret]
    assert secret
    assert all(re.search(SECRETS, name) for name in secret)


def test_the_schema_is_fixed() -> None:
    factory = PulsarSourceFactory()
    schema = factory.schema(GIVEN)
    assert schema.names[:2] == ["value", "__key"]
    with pytest.raises(OptionError, match="fixed schema"):
        factory.create(GIVEN, None, schema=schema.remove(0))  # type: ignore[arg-type]


ROWS = re.findall(r"^\| `([^`]+)` \| .* \| .* \| (.*) \|$", PAGE, re.MULTILINE)


def test_the_page_has_every_option_and_no_other() -> None:
    assert "".join(map(row, OPTIONS)) in PAGE
    assert "| `service.url` | The URL of the brokers. Required. |" in PAGE
    assert len(ROWS) == len(OPTIONS)
    assert all(f"`{name}`" in PAGE for name in (*REFUSED, *WITHOUT_EFFECT))


def test_writing_out_the_defaults_changes_nothing() -> None:
    defaults = {name: found[1] for name, text in ROWS if (found := re.fullmatch(r"`([^`]*)`", text))}
    assert parse_pulsar_options({**GIVEN, **defaults}) == parse_pulsar_options(GIVEN)
    assert len(defaults) >= 8
