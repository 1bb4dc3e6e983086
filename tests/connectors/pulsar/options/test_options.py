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
from flip27_stream.wall_clock import now_ms
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
    for wrong in ("a/b", "a,", "a,b"):
        assert "persistent://tenant/namespace/topic" in refusal(topic=wrong)
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


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("cl(", "unterminated"),
        ("a b", "without white space"),
        ("public/default/a/b", "without a slash"),
        ("non-persistent://public/default/a.*", "not persistent"),
    ],
)
def test_an_error_says_what_is_wrong_with_a_pattern_of_topics(pattern: str, why: str) -> None:
    given = {"service.url": "pulsar://localhost:6650", "admin.url": "http://localhost:8080"}
    with pytest.raises(OptionError, match=why) as refused:
        parse_pulsar_options({**given, "topicsPattern": pattern})
    assert ("unterminated" in str(refused.value)) == (why == "unterminated")


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
    last = 2**63 - 1
    assert begin(startingOffsets=f'{{"clicks": "{last}:{last}"}}') == position_at(last, last)


@pytest.mark.parametrize(
    "given", [{"startingOffsets": '{"clicks-partition-0": "12:5"}'}, {"startingTime": '{"clicks": 5}'}]
)
def test_a_batch_read_begins_at_the_earliest_message_of_topics_that_are_not_named(
    given: dict[str, str],
) -> None:
    options = {"service.url": GIVEN["service.url"], "topics": "clicks,views", **given}
    start = parse_pulsar_options(options, bounded=True).start
    for partition in ("persistent://public/default/views", "persistent://public/default/views-partition-0"):
        assert start.of(partition) is StartKind.EARLIEST
    assert "in a batch read at the earliest one" in PAGE


def test_a_batch_read_that_begins_at_the_latest_message_is_refused() -> None:
    for text in ("latest", '{"clicks": "earliest", "clicks-partition-1": "latest"}'):
        with pytest.raises(OptionError, match="A batch read has nothing to read then"):
            parse_pulsar_options({**GIVEN, "startingOffsets": text}, bounded=True)


@pytest.mark.parametrize("name", ["startingOffsets", "startingTime"])
def test_start_positions_are_of_topics_that_are_read(name: str) -> None:
    """A position of another topic would have no effect, and of two positions of a topic one would have none."""
    value = {"startingOffsets": '"earliest"', "startingTime": "5"}[name]
    for twice in ("clicks", FULL):
        assert f"names {FULL} twice" in refusal(**{name: f'{{"clicks": {value}, "{twice}": {value}}}'})
    for other in ("klicks", "klicks-partition-0"):
        assert f"'{name}' names persistent://public/default/{other}," in refusal(
            **{name: f'{{"{other}": {value}}}'}
        )
    assert f"'{name}'" in refusal(**{name: "{}"})
    partition = {**GIVEN, "topic": "clicks-partition-0"}
    for read in ("clicks", "clicks-partition-0"):
        begin = parse_pulsar_options({**partition, name: f'{{"{read}": {value}}}'}).start.of(
            f"{FULL}-partition-0"
        )
        assert begin in (StartKind.EARLIEST, AtTime(5))
    assert f"{FULL}-partition-1" in refusal(
        topic="clicks-partition-0", **{name: f'{{"clicks-partition-1": {value}}}'}
    )


def test_a_query_does_not_begin_in_the_future() -> None:
    """Clocks may differ a little. A query with a stored position does not ask where it begins."""
    for ahead_ms, is_refused in ((30_000, False), (3_600_000, True)):
        moment = now_ms() + ahead_ms
        for text in (str(moment), f'{{"clicks": {moment}}}'):
            start = parse_pulsar_options({**GIVEN, "startingTime": text}).start
            if not is_refused:
                assert start.of(FULL) == AtTime(moment)
                continue
            with pytest.raises(OptionError, match=f"'startingTime': {moment}"):
                start.of(FULL)


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
        {"startingOffsets": '{"clicks": "9999999999999999999:0"}'},
        {"startingOffsets": '{"clicks": "1:9999999999999999999"}'},
        {"startingOffsets": '{"clicks": [8, 1, 16, 2, 32, 128, 128, 128, 128, 16]}'},  # the index 2**32
        {"startingOffsets": '{"clicks": ' + 100_000 * "["},
        {"startingTime": "yesterday"},
        {"startingTime": '{"clicks": 10000000000000000000000000}'},
        {"startingTime": '{"clicks": "1"}'},
        {"startingOffsets": "earliest", "startingTime": "1"},
        {"pulsar.client.authParams": "token:abc"},
        {"pulsar.client.authPluginClassName": TOKEN},
        {"pulsar.client.authPluginClassName": "kerberos", "pulsar.client.authParams": "a"},
        {"maxBytesPerTrigger": "0"},
        {"pollTimeout": "1"},
        {"pulsar.client.connectionTimeoutMs": "3000000000"},
        {"pulsar.client.operationTimeoutMs": "99999999999999"},
        {"pulsar.client.concurrentLookupRequest": "3000000000"},
        {"subscriptionPrefix": "a", "pulsar.reader.subscriptionRolePrefix": "b"},
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("service.url", "pulsar://me:s3cret@localhost:6650"),
        ("service.url", "http://localhost?token=s3cret"),
        ("admin.url", "https://me:s3cret@localhost:8080"),
        ("admin.url", "https://localhost#s3cret"),
        ("pulsar.client.authPluginClassName", "token:s3cret"),
    ],
)
def test_secrets_in_a_wrong_option_are_not_shown(name: str, value: str) -> None:
    """The message names the option where they belong."""
    message = refusal(**{name: value})
    assert f"'{name}'" in message
    assert "'pulsar.client.authParams'" in message
    assert "s3cret" not in message


@pytest.mark.parametrize(
    ("method", "params", "why"),
    [
        ("tls", "tlsCertFileX:/c,tlsKeyFileY:/k", "tlsCertFile and tlsKeyFile"),
        ("basic", '{"userIdX": "me", "passwordY": "s3cret"}', "userId and password"),
        ("oauth2", '{"privateKey": "file:///k"}', "issuerUrl"),
        (
            "oauth2",
            '{"issuerUrl": "https://i", "privateKey": "data:application/json;base64,czNjcmV0"}',
            "client_id",
        ),
        ("oauth2", '{"issuerUrl": "https://i", "privateKey": "data:s3cret"}', "client_id"),
        (
            "oauth2",
            '{"issuerUrl": "https://i", "privateKey": {"client_secret": "s3cret"}}',
            "privateKey, as text",
        ),
        ("tls", '{"tlsCertFile": null, "tlsKeyFile": "/s3cret"}', "have tlsCertFile, as text"),
        ("token", "token: ", "empty"),
    ],
)
def test_missing_parameters_of_a_method_are_named(method: str, params: str, why: str) -> None:
    message = refusal(**{"pulsar.client.authPluginClassName": method, "pulsar.client.authParams": params})
    assert "'pulsar.client.authParams'" in message
    assert why in message
    assert "s3cret" not in message
    assert "czNjcmV0" not in message


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
