"""Options of the Kinesis source: the names and meanings of Databricks' source."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from flip27_stream.api import ReadLimits
from flip27_stream.connectors.kinesis.options.connection_options import ConnectionOptions
from flip27_stream.connectors.kinesis.options.initial_position import (
    InitialPosition,
    Start,
    parse_initial_position,
)
from flip27_stream.errors import OptionError
from flip27_stream.options.option_values import OptionValues
from watermark_alignment.options import check_known, parse_duration

log = logging.getLogger(__name__)

_CONNECTION = (
    "region",
    "endpoint",
    "awsAccessKey",
    "awsAccessKeyId",
    "awsSecretKey",
    "awsSecretAccessKey",
    "sessionToken",
    "roleArn",
    "roleExternalId",
    "roleSessionName",
    "stsEndpoint",
    "requestTimeout",
)
OPTION_NAMES = (
    "streamName",
    "streamARN",
    *_CONNECTION,
    "initialPosition",
    "failOnDataLoss",
    "maxRecordsPerTrigger",
    "maxBytesPerTrigger",
    "maxFetchRate",
    "minFetchPeriod",
    "maxRecordsPerFetch",
    "shardFetchInterval",
    "settlingTime",
    "includeSubSequenceNumber",
    "consumerMode",
)
"""Every option that has an effect, in its canonical spelling."""

WITHOUT_EFFECT: Mapping[str, str] = {
    "maxFetchDuration": "a micro-batch is planned, and what is planned is read",
    "fetchBufferSize": "what is fetched goes to Spark at once",
    "coalesceThresholdBlockSize": "there are no prefetched blocks",
    "coalesceBinSize": "there are no prefetched blocks",
    "reuseKinesisClient": "clients are always reused within a task",
    "shardsPerTask": "shards are divided among as many tasks as can run at the same time",
    "maxShardsPerDescribe": "shards are listed with ListShards",
}
"""Options of Databricks' source that only tune what is not done here, and why they change nothing."""

_NO_FAN_OUT = "enhanced fan-out is not supported; leave it out, and read with consumerMode polling"
REFUSED: Mapping[str, str] = {
    "consumerName": _NO_FAN_OUT,
    "consumerNamePrefix": _NO_FAN_OUT,
    "consumerRefreshInterval": _NO_FAN_OUT,
    "registeredConsumerId": _NO_FAN_OUT,
    "registeredConsumerIdType": _NO_FAN_OUT,
    "requireConsumerDeregistration": _NO_FAN_OUT,
    "serviceCredential": "credentials come from boto3's chain, from keys or from a role",
    "awsSTSRoleARN": "the role is named by option 'roleArn'",
}
"""Options of Databricks' source that cannot be honoured, and what to do."""

_KNOWN = {name.lower(): name for name in (*OPTION_NAMES, *WITHOUT_EFFECT, *REFUSED)}
_STREAM_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ARN = re.compile(r"arn:aws[a-z-]*:kinesis:([a-z0-9-]+):\d{12}:stream/[A-Za-z0-9_.-]{1,128}")
_MOST_PER_FETCH = 10_000
_MEGABYTE = 1 << 20
_GREATEST_RATE = 2.0


@dataclass(frozen=True)
class KinesisOptions:
    """What the options say, checked.

    Attributes:
        streams: names or ARNs, without repetition.
        by_arn: whether they are ARNs.
        max_fetch_rate: MB a second of one shard.
        min_fetch_period_ms: between two fetches of a shard on average.
        max_records_per_fetch: that one fetch asks for.
        shard_fetch_interval_ms: between two looks for new shards.
        settling_time_ms: the end of a busy shard is looked for so long before now.
        sub_sequence_number: whether rows have the column ``subSequenceNumber``.
    """

    connection: ConnectionOptions
    streams: tuple[str, ...]
    by_arn: bool = False
    initial_position: InitialPosition = field(default_factory=lambda: InitialPosition(Start.LATEST))
    limits: ReadLimits = field(default_factory=ReadLimits)
    fail_on_data_loss: bool = True
    max_fetch_rate: float = 1.0
    min_fetch_period_ms: int = 400
    max_records_per_fetch: int = _MOST_PER_FETCH
    shard_fetch_interval_ms: int = 1000
    settling_time_ms: int = 1000
    sub_sequence_number: bool = False


def parse_kinesis_options(options: Mapping[str, str], *, bounded: bool = False) -> KinesisOptions:
    """Check options, whose names may be in any case.

    Args:
        options: as the user gave them.
        bounded: for a batch read, which begins at the trim horizon by default and cannot begin at the latest record.

    Raises:
        OptionError: one is unknown, missing, wrong or cannot be honoured.
    """
    given = {name.lower(): value for name, value in options.items()}
    check_known(given, _KNOWN)
    values = OptionValues(given)
    _refuse(values)
    streams, by_arn = _streams(values)
    return KinesisOptions(
        connection=_connection(values, streams, by_arn=by_arn),
        streams=streams,
        by_arn=by_arn,
        initial_position=_initial_position(values, bounded=bounded),
        limits=ReadLimits() if bounded else _limits(values),
        fail_on_data_loss=values.boolean("failOnDataLoss", True),
        max_fetch_rate=values.parsed("maxFetchRate", _rate, KinesisOptions.max_fetch_rate),
        min_fetch_period_ms=_duration(values, "minFetchPeriod", KinesisOptions.min_fetch_period_ms),
        max_records_per_fetch=values.whole("maxRecordsPerFetch", _MOST_PER_FETCH, most=_MOST_PER_FETCH),
        shard_fetch_interval_ms=_duration(
            values, "shardFetchInterval", KinesisOptions.shard_fetch_interval_ms, least=1
        ),
        settling_time_ms=_duration(values, "settlingTime", KinesisOptions.settling_time_ms, least=1),
        sub_sequence_number=values.boolean("includeSubSequenceNumber", False),
    )


def _refuse(values: OptionValues) -> None:
    for name, reason in REFUSED.items():
        if values.has(name):
            raise OptionError(f"Option '{name}' cannot be honoured: {reason}.")
    values.parsed("consumerMode", _consumer_mode, "polling")
    for name, reason in WITHOUT_EFFECT.items():
        if values.has(name):
            log.warning("Option '%s' has no effect: %s.", name, reason)


def _consumer_mode(name: str, text: str) -> str:
    if text.lower() == "efo":
        raise OptionError.of(name, text, "Enhanced fan-out is not supported. Allowed: polling.")
    if text.lower() != "polling":
        raise OptionError.of(name, text, "Allowed: polling.")
    return text.lower()


def _streams(values: OptionValues) -> tuple[tuple[str, ...], bool]:
    by_arn = values.has("streamARN")
    if by_arn == values.has("streamName"):
        raise OptionError("Set one of the options 'streamName' and 'streamARN': what is to be read.")
    name = "streamARN" if by_arn else "streamName"
    text = values.text(name) or ""
    streams = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    form = _ARN if by_arn else _STREAM_NAME
    if not all(form.fullmatch(stream) for stream in streams):
        what = "arn:aws:kinesis:REGION:ACCOUNT:stream/NAME" if by_arn else "names of streams"
        raise OptionError.of(name, text, f"Allowed: {what}, separated by commas.")
    return streams, by_arn


def _connection(values: OptionValues, streams: tuple[str, ...], *, by_arn: bool) -> ConnectionOptions:
    region = values.text("region")
    regions = {found[1] for stream in streams if (found := _ARN.fullmatch(stream))}
    if by_arn and region is None and len(regions) == 1:
        region = next(iter(regions))
    if len(regions | ({region} if region else set())) > 1:
        raise OptionError(
            f"The streams are in the regions {', '.join(sorted(regions))}, and option 'region' is {region!r}: a source "
            "reads streams of one region."
        )
    access, secret = (
        _key(values, "awsAccessKey", "awsAccessKeyId"),
        _key(values, "awsSecretKey", "awsSecretAccessKey"),
    )
    if (access is None) != (secret is None):
        raise OptionError("Options 'awsAccessKey' and 'awsSecretKey' belong together: set both, or neither.")
    if values.has("sessionToken") and access is None:
        raise OptionError("Option 'sessionToken' needs options 'awsAccessKey' and 'awsSecretKey'.")
    for name in ("roleExternalId", "roleSessionName", "stsEndpoint"):
        if values.has(name) and not values.has("roleArn"):
            raise OptionError(f"Option '{name}' needs option 'roleArn', the role to assume.")
    return ConnectionOptions(
        region=region,
        endpoint=values.text("endpoint"),
        access_key=access,
        secret_key=secret,
        session_token=values.text("sessionToken"),
        role_arn=values.text("roleArn"),
        role_external_id=values.text("roleExternalId"),
        role_session_name=values.text("roleSessionName") or ConnectionOptions.role_session_name,
        sts_endpoint=values.text("stsEndpoint"),
        request_timeout_ms=_duration(values, "requestTimeout", ConnectionOptions.request_timeout_ms, least=1),
    )


def _key(values: OptionValues, name: str, other: str) -> str | None:
    if values.has(name) and values.has(other):
        raise OptionError(f"Options '{name}' and '{other}' are two names of one option: set one of them.")
    return values.text(name) if values.has(name) else values.text(other)


def _initial_position(values: OptionValues, *, bounded: bool) -> InitialPosition:
    default = InitialPosition(Start.TRIM_HORIZON if bounded else Start.LATEST)
    position = values.parsed("initialPosition", parse_initial_position, default)
    if bounded and position.start is Start.LATEST:
        raise OptionError.of("initialPosition", "latest", "A batch read cannot begin at the latest record.")
    return position


def _limits(values: OptionValues) -> ReadLimits:
    return ReadLimits(
        max_rows=values.whole("maxRecordsPerTrigger", None),
        max_bytes=values.whole("maxBytesPerTrigger", None),
    )


def _rate(name: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= _GREATEST_RATE:
        raise OptionError.of(name, text, "Allowed: MB a second of one shard, more than 0 and at most 2.0.")
    return rate


def _duration(values: OptionValues, name: str, default: int, least: int = 0) -> int:
    def parse(name: str, text: str) -> int:
        found = parse_duration(f"{text} ms" if re.fullmatch(r"\d+", text, re.ASCII) else text, name)
        if found < least:
            raise OptionError.of(name, text, f"Allowed: a duration of at least {least} ms.")
        return found

    return values.parsed(name, parse, default)


def bytes_per_second(options: KinesisOptions) -> float:
    """That may be read of one shard."""
    return options.max_fetch_rate * _MEGABYTE
