"""Options of the Kinesis source have the names of Databricks' source. A value that cannot be
honoured is refused by name.
"""

from __future__ import annotations

from datetime import datetime, timezone
from functools import partial

import pytest

from flip27_stream.connectors.kinesis import KinesisSource, KinesisSourceFactory
from flip27_stream.connectors.kinesis.options.fan_out_options import FanOutOptions
from flip27_stream.connectors.kinesis.options.initial_position import InitialPosition, Start
from flip27_stream.connectors.kinesis.options.option_list import REFUSED
from flip27_stream.connectors.kinesis.options.source_options import parse_kinesis_options
from flip27_stream.errors import OptionError
from tests.connectors.support.refused_options import refusal_by

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/clicks"
ROLE = "arn:aws:iam::123456789012:role/reader"
GIVEN = {"streamName": "clicks"}


refusal = partial(refusal_by, parse_kinesis_options, GIVEN)
"""Returns the message for options that are refused beside those of :data:`GIVEN`."""


def test_streams_are_named_or_given_by_arn() -> None:
    assert parse_kinesis_options({"streamname": "a, b,a"}).streams == ("a", "b")
    by_arn = parse_kinesis_options({"streamARN": ARN})
    assert (by_arn.streams, by_arn.connection.region) == ((ARN,), "eu-west-1")
    assert "'streamName' and 'streamARN'" in refusal(streamARN=ARN)
    with pytest.raises(
        OptionError, match=r"in region eu-west-1, and option 'region' is 'us-east-1'\. Leave out"
    ):
        parse_kinesis_options({"streamARN": ARN, "region": "us-east-1"})
    with pytest.raises(OptionError, match=r"in several regions \(eu-west-1, us-east-1\)"):
        parse_kinesis_options({"streamARN": f"{ARN},{ARN.replace('eu-west-1', 'us-east-1')}"})
    with pytest.raises(OptionError, match="'streamName'"):
        parse_kinesis_options({"streamName": "a//b"})


PDT = int(datetime(2020, 6, 25, 17, 23, 45, tzinfo=timezone.utc).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latest", InitialPosition(Start.LATEST)),
        ("TRIM_HORIZON", InitialPosition(Start.TRIM_HORIZON)),
        ("earliest", InitialPosition(Start.TRIM_HORIZON)),
        (
            '{"at_timestamp": "06/25/2020 10:23:45 PDT", "format": "MM/dd/yyyy HH:mm:ss ZZZ"}',
            InitialPosition(Start.AT_TIMESTAMP, PDT),
        ),
        ('{"at_timestamp": "2020-06-25T17:23:45Z"}', InitialPosition(Start.AT_TIMESTAMP, PDT)),
        ('{"AT_TIMESTAMP": "2020-06-25 19:23:45+02:00"}', InitialPosition(Start.AT_TIMESTAMP, PDT)),
        (f'{{"at_timestamp": {PDT}}}', InitialPosition(Start.AT_TIMESTAMP, PDT)),
    ],
)
def test_initial_positions_are_parsed(text: str, expected: InitialPosition) -> None:
    """KN-01: the option takes every kind of initial position."""
    assert parse_kinesis_options({**GIVEN, "initialPosition": text}).initial_position == expected


@pytest.mark.parametrize(
    "text",
    [
        "newest",
        "{}",
        '{"at_timestamp": "yesterday"}',
        '{"at_timestamp": "25 June", "format": "dd MMMM"}',
        '{"at_timestamp": "13/45/2020", "format": "MM/dd/yyyy"}',
        '{"at_timestamp": true}',
        '{"at_timestamp": "2020-06-25T17:23:45Z", "zone": "UTC"}',
        '{"at_timestamp": "2020-06-25T17:23:45Z", "AT_TIMESTAMP": "2021-06-25T17:23:45Z"}',
        '{"at_timestamp": "06/25/2020 +99:00", "format": "MM/dd/yyyy ZZZ"}',
    ],
)
def test_wrong_initial_positions_are_refused(text: str) -> None:
    assert "'initialPosition'" in refusal(initialPosition=text)


@pytest.mark.parametrize("number", [0, 1, 946_684_799])
def test_a_number_before_2000_in_seconds_too_is_the_trim_horizon(number: int) -> None:
    """A hybrid source whose history has no records gives the time 0, and its trial call 1."""
    parsed = parse_kinesis_options({**GIVEN, "initialPosition": f'{{"at_timestamp": {number}}}'})
    assert parsed.initial_position == InitialPosition(Start.TRIM_HORIZON)
    assert "'initialPosition'" in refusal(
        initialPosition=f'{{"at_timestamp": {number}, "format": "MM/dd/yyyy"}}'
    )


@pytest.mark.parametrize("number", [946_684_800, 1719310000, 946_684_799_999, 99999999999999999999, -1])
def test_a_number_is_in_milliseconds(number: int) -> None:
    """A number of seconds would be a time in 1970."""
    assert "A number is in milliseconds since 1970" in refusal(
        initialPosition=f'{{"at_timestamp": {number}}}'
    )


def test_a_batch_read_cannot_begin_at_the_latest_record() -> None:
    assert parse_kinesis_options(GIVEN, bounded=True).initial_position.start is Start.TRIM_HORIZON
    with pytest.raises(OptionError, match="batch read"):
        KinesisSource({**GIVEN, "initialPosition": "latest"}, bounded=True)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_unsupported_options_are_refused_by_name(name: str) -> None:
    assert f"'{name}'" in refusal(**{name: "x"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consumerName", "without efo"),
        ("requireConsumerDeregistration", "true"),
        ("consumerMode", "push"),
        ("maxFetchRate", "2.5"),
        ("maxFetchRate", "0"),
        ("maxRecordsPerFetch", "10001"),
        ("maxRecordsPerTrigger", "0"),
        ("minFetchPeriod", "soon"),
        ("settlingTime", "0"),
        ("shardFetchInterval", "0 ms"),
        ("failOnDataLoss", "maybe"),
        ("awsAccessKey", "only the key"),
        ("awsAccessKeyId", "only the key"),
        ("awsSecretAccessKey", "only the secret"),
        ("sessionToken", "without keys"),
        ("roleExternalId", "without a role"),
        ("roleArn", "nonsense"),
        ("region", "us east"),
        ("endpoint", "localhost:4567"),
        ("endpoint", "ftp://host"),
    ],
)
def test_wrong_values_name_the_option(name: str, value: str) -> None:
    assert name in refusal(**{name: value})


EFO = {"consumerMode": "EFO"}
CONSUMER = f"{ARN}/consumer/mine:1700000000"


def test_options_of_enhanced_fan_out_are_parsed() -> None:
    """The query registers a consumer with a prefix, or uses consumers that others registered."""
    given = {**GIVEN, **EFO}
    ours = parse_kinesis_options({**given, "consumerName": "me"}).fan_out
    assert ours == FanOutOptions((("clicks", "flip27_me"),), True, 300_000, False)
    prefixed = parse_kinesis_options(
        {**given, "consumerName": "me", "consumerNamePrefix": "databricks_"}
    ).fan_out
    assert prefixed is not None
    assert prefixed.consumer_of("clicks") == "databricks_me"
    by_name = {"registeredConsumerId": "a, b", "registeredConsumerIdType": "name"}
    theirs = parse_kinesis_options({**EFO, "streamName": "one,two", **by_name}).fan_out
    assert theirs is not None
    assert (theirs.consumers, theirs.is_ours) == ((("one", "a"), ("two", "b")), False)
    by_arn = {"registeredConsumerId": CONSUMER, "registeredConsumerIdType": "ARN"}
    assert parse_kinesis_options({**given, **by_arn}).fan_out.consumers == (("clicks", CONSUMER),)  # type: ignore[union-attr]
    assert parse_kinesis_options(GIVEN).fan_out is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "'consumerName'"),
        ({"consumerName": "a", "registeredConsumerId": "b"}, "'registeredConsumerId'"),
        ({"consumerName": "a b"}, "'consumerName'"),
        ({"consumerName": "a" * 128}, "'consumerName'"),
        ({"consumerName": "a", "registeredConsumerIdType": "name"}, "'registeredConsumerIdType'"),
        ({"consumerName": "a", "consumerRefreshInterval": "2 h"}, "'consumerRefreshInterval'"),
        ({"registeredConsumerId": "a"}, "'registeredConsumerIdType'"),
        ({"registeredConsumerId": "a", "registeredConsumerIdType": "id"}, "'registeredConsumerIdType'"),
        ({"registeredConsumerId": "a,b", "registeredConsumerIdType": "name"}, "'registeredConsumerId'"),
        ({"registeredConsumerId": "a", "registeredConsumerIdType": "arn"}, "'registeredConsumerId'"),
        (
            {"registeredConsumerId": CONSUMER.replace("clicks", "other"), "registeredConsumerIdType": "arn"},
            "'registeredConsumerId'",
        ),
        (
            {"registeredConsumerId": "a", "registeredConsumerIdType": "name", "consumerNamePrefix": "x"},
            "'consumerNamePrefix'",
        ),
        (
            {
                "registeredConsumerId": "a",
                "registeredConsumerIdType": "name",
                "requireConsumerDeregistration": "true",
            },
            "'requireConsumerDeregistration'",
        ),
    ],
)
def test_wrong_options_of_enhanced_fan_out_are_refused(options: dict[str, str], named: str) -> None:
    assert named in refusal(**EFO, **options)


def test_unknown_options_are_refused() -> None:
    assert "Did you mean 'streamName'" in refusal(streamNames="a")


def test_secrets_are_not_shown() -> None:
    options = parse_kinesis_options(
        {**GIVEN, "awsAccessKey": "known", "awsSecretKey": "hidden-1", "sessionToken": "hidden-2"}
    )
    assert "hidden" not in repr(options)
    assert (
        "hidden"
        not in KinesisSource({**GIVEN, "awsAccessKey": "known", "awsSecretKey": "hidden-1"}).fingerprint
    )


@pytest.mark.parametrize("name", ["endpoint", "stsEndpoint"])
def test_a_url_with_a_password_is_refused_and_not_shown(name: str) -> None:
    message = refusal(**{name: "http://user:hidden@127.0.0.1:9", "roleArn": ROLE})
    assert f"'{name}' has a user name or a password" in message
    assert "hidden" not in message


def test_the_schema_is_fixed() -> None:
    factory = KinesisSourceFactory()
    names = ["partitionKey", "data", "stream", "shardId", "sequenceNumber", "approximateArrivalTimestamp"]
    assert factory.schema(GIVEN).names == names
    assert factory.schema({**GIVEN, "includeSubSequenceNumber": "true"}).names == [
        *names,
        "subSequenceNumber",
    ]
