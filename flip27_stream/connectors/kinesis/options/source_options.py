"""Parses the options of the Kinesis source."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from flip27_stream.api import ReadLimits
from flip27_stream.connectors.kinesis.options import option_list as names
from flip27_stream.connectors.kinesis.options.connection_options import KinesisConnectionOptions
from flip27_stream.connectors.kinesis.options.fan_out_options import FanOutOptions, parse_fan_out
from flip27_stream.connectors.kinesis.options.initial_position import InitialPosition, Start
from flip27_stream.connectors.kinesis.options.option_list import (
    KNOWN_OPTIONS,
    REFUSED,
    SUPPORTED_OPTIONS,
    WITHOUT_EFFECT,
)
from flip27_stream.errors import OptionError
from flip27_stream.options.given import given_options
from flip27_stream.options.known_options import check_known, check_supported
from flip27_stream.options.option import Option

log = logging.getLogger(__name__)

_STREAM_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ARN = re.compile(r"arn:aws[a-z-]*:kinesis:([a-z0-9-]+):\d{12}:stream/[A-Za-z0-9_.-]{1,128}")
_MEGABYTE = 1 << 20

Given = Mapping[str, str]
"""The options of a query, by their names in lower case."""


@dataclass(frozen=True)
class KinesisOptions:
    """The checked options of a Kinesis source.

    Attributes:
        connection: The address of the service, credentials and time limits.
        streams: The names or ARNs of the streams, each once.
        initial_position: The position at which a new query begins.
        limits: The read limits of a micro-batch.
        fail_on_data_loss: Whether lost records fail the query.
        max_fetch_rate: The greatest number of MB per second that are read from a shard.
        min_fetch_period_ms: The least mean time (ms) between two fetches from a shard.
        max_records_per_fetch: The greatest number of records in a fetch.
        shard_fetch_interval_ms: The time (ms) between two discoveries of shards.
        settling_time_ms: The time (ms) before now at which the end of a busy shard is set, so that no earlier record
            can follow.
        sub_sequence_number: Whether rows have the column ``subSequenceNumber``.
        fan_out: The registered consumers that subscribe to the shards; ``None`` if tasks poll them.
    """

    connection: KinesisConnectionOptions
    streams: tuple[str, ...]
    initial_position: InitialPosition = field(default_factory=lambda: InitialPosition(Start.LATEST))
    limits: ReadLimits = field(default_factory=ReadLimits)
    fail_on_data_loss: bool = True
    max_fetch_rate: float = 1.0
    min_fetch_period_ms: int = 400
    max_records_per_fetch: int = names.MOST_PER_FETCH
    shard_fetch_interval_ms: int = 1000
    settling_time_ms: int = 1000
    sub_sequence_number: bool = False
    fan_out: FanOutOptions | None = None


def parse_kinesis_options(options: Mapping[str, str], *, bounded: bool = False) -> KinesisOptions:
    """Returns the checked options.

    Args:
        options: The options as the user gave them, with names in any case.
        bounded: Whether this is a batch read, which begins at the trim horizon by default and cannot begin at the
            latest record.

    Raises:
        OptionError: An option is unknown, missing, wrong or not supported.
    """
    given = given_options(options)
    check_known(given, KNOWN_OPTIONS, suggested=(SUPPORTED_OPTIONS,))
    check_supported(given, REFUSED, WITHOUT_EFFECT, log)
    streams = _streams(given)
    limits = ReadLimits(
        max_rows=names.MAX_RECORDS_PER_TRIGGER.get(given), max_bytes=names.MAX_BYTES_PER_TRIGGER.get(given)
    )
    return KinesisOptions(
        connection=_connection(given, streams),
        streams=streams,
        initial_position=_initial_position(given, bounded=bounded),
        limits=ReadLimits() if bounded else limits,
        fail_on_data_loss=names.FAIL_ON_DATA_LOSS.require(given),
        max_fetch_rate=names.MAX_FETCH_RATE.require(given),
        min_fetch_period_ms=names.MIN_FETCH_PERIOD.require(given),
        max_records_per_fetch=names.MAX_RECORDS_PER_FETCH.require(given),
        shard_fetch_interval_ms=names.SHARD_FETCH_INTERVAL.require(given),
        settling_time_ms=names.SETTLING_TIME.require(given),
        sub_sequence_number=names.INCLUDE_SUB_SEQUENCE_NUMBER.require(given),
        fan_out=parse_fan_out(given, streams),
    )


def _streams(given: Given) -> tuple[str, ...]:
    by_arn = names.STREAM_ARN.is_given(given)
    if by_arn == names.STREAM_NAME.is_given(given):
        raise OptionError(
            "Set exactly one of the options 'streamName' and 'streamARN', which name the streams to read."
        )
    option = names.STREAM_ARN if by_arn else names.STREAM_NAME
    text = option.text(given) or ""
    streams = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    form = _ARN if by_arn else _STREAM_NAME
    if not all(form.fullmatch(stream) for stream in streams):
        what = "arn:aws:kinesis:REGION:ACCOUNT:stream/NAME" if by_arn else "names of streams"
        raise option.wrong(text, f"Allowed: {what}, separated by commas.")
    return streams


def _connection(given: Given, streams: tuple[str, ...]) -> KinesisConnectionOptions:
    region = names.REGION.get(given)
    regions = {found[1] for stream in streams if (found := _ARN.fullmatch(stream))}
    if region is None and len(regions) == 1:
        region = next(iter(regions))
    if len(regions) > 1:
        raise OptionError(
            f"The streams are in several regions ({', '.join(sorted(regions))}). Read each region with a query of its "
            "own."
        )
    if region is not None and regions - {region}:
        raise OptionError(
            f"The streams are in region {min(regions)}, and option 'region' is {region!r}. Leave out option 'region'."
        )
    access = _one_of_two(given, names.AWS_ACCESS_KEY, names.AWS_ACCESS_KEY_ID)
    secret = _one_of_two(given, names.AWS_SECRET_KEY, names.AWS_SECRET_ACCESS_KEY)
    if (access is None) != (secret is None):
        raise OptionError(
            "Options 'awsAccessKey' (or 'awsAccessKeyId') and 'awsSecretKey' (or 'awsSecretAccessKey') belong "
            "together: set both, or neither."
        )
    if names.SESSION_TOKEN.is_given(given) and access is None:
        raise OptionError(
            "Option 'sessionToken' needs options 'awsAccessKey' and 'awsSecretKey'. Give all three, or none of them."
        )
    for option in (names.ROLE_EXTERNAL_ID, names.ROLE_SESSION_NAME, names.STS_ENDPOINT):
        if option.is_given(given) and not names.ROLE_ARN.is_given(given):
            raise OptionError(f"Option '{option.name}' needs option 'roleArn', the role to assume.")
    return KinesisConnectionOptions(
        region=region,
        endpoint=names.ENDPOINT.get(given),
        access_key=access,
        secret_key=secret,
        session_token=names.SESSION_TOKEN.get(given),
        role_arn=names.ROLE_ARN.get(given),
        role_external_id=names.ROLE_EXTERNAL_ID.get(given),
        role_session_name=names.ROLE_SESSION_NAME.require(given),
        sts_endpoint=names.STS_ENDPOINT.get(given),
        request_timeout_ms=names.REQUEST_TIMEOUT.require(given),
    )


def _one_of_two(given: Given, option: Option[str], other: Option[str]) -> str | None:
    if option.is_given(given) and other.is_given(given):
        raise OptionError(
            f"Options '{option.name}' and '{other.name}' are two names of one option: set one of them."
        )
    return option.get(given) if option.is_given(given) else other.get(given)


def _initial_position(given: Given, *, bounded: bool) -> InitialPosition:
    if bounded and not names.INITIAL_POSITION.is_given(given):
        return InitialPosition(Start.TRIM_HORIZON)
    position = names.INITIAL_POSITION.require(given)
    if bounded and position.start is Start.LATEST:
        raise OptionError.of("initialPosition", "latest", "A batch read cannot begin at the latest record.")
    return position


def bytes_per_second(options: KinesisOptions) -> float:
    """Returns the greatest number of bytes per second that are read from a shard."""
    return options.max_fetch_rate * _MEGABYTE
