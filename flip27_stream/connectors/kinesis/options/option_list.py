"""The options of the Kinesis source: the names and meanings of Databricks' source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from flip27_stream.connectors.kinesis.options.fan_out_options import FAN_OUT_OPTIONS
from flip27_stream.connectors.kinesis.options.initial_position import parse_initial_position
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import (
    BOOLEAN,
    DURATION_OR_MS,
    POSITIVE_DURATION_OR_MS,
    TEXT,
    any_text,
    http_url,
    whole,
)
from flip27_stream.options.option import Kind, Option, canonical_names

MOST_PER_FETCH: Final = 10_000
_GREATEST_RATE: Final = 2.0


def _rate(text: str, option: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= _GREATEST_RATE:
        raise OptionError.of(option, text, "Allowed: MB a second of one shard, more than 0 and at most 2.0.")
    return rate


_REGION: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_ROLE: Final = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", re.ASCII)


def _url(text: str, option: str) -> str:
    if "@" in text:
        raise OptionError(
            f"Option '{option}' has a user name or a password (the value is not shown). Leave them out: the options of "
            "credentials sign the calls."
        )
    if http_url(text.strip()) is None:
        raise OptionError.of(option, text, "Allowed: a URL such as https://kinesis.eu-west-1.amazonaws.com.")
    return text.strip()


def _region(text: str, option: str) -> str:
    if not _REGION.fullmatch(text.strip()):
        raise OptionError.of(option, text, "Allowed: the name of a region, such as eu-west-1.")
    return text.strip()


def _role(text: str, option: str) -> str:
    if not _ROLE.fullmatch(text.strip()):
        raise OptionError.of(option, text, "Allowed: arn:aws:iam::ACCOUNT:role/NAME.")
    return text.strip()


_URL: Final = Kind("URL", _url)
_RATE: Final = Kind("number > 0, at most 2.0", _rate)

STREAM_NAME: Final = Option(
    "streamName",
    any_text("names, separated by commas"),
    None,
    "Names of the streams to read. This or `streamARN` is required.",
)
STREAM_ARN: Final = Option(
    "streamARN",
    any_text("ARNs, separated by commas"),
    None,
    "ARNs of the streams to read, all of one region.",
)
REGION: Final = Option(
    "region",
    Kind("text", _region),
    None,
    "AWS region. If not set: the region of the ARNs, or else of boto3's configuration.",
)
ENDPOINT: Final = Option("endpoint", _URL, None, "URL of the service, if it is not that of AWS.")
AWS_ACCESS_KEY: Final = Option(
    "awsAccessKey",
    TEXT,
    None,
    "Access key of explicit credentials. Without it boto3's credential chain is used.",
)
AWS_ACCESS_KEY_ID: Final = Option("awsAccessKeyId", TEXT, None, "Another name of `awsAccessKey`.")
AWS_SECRET_KEY: Final = Option("awsSecretKey", TEXT, None, "Secret key of `awsAccessKey`.", secret=True)
AWS_SECRET_ACCESS_KEY: Final = Option(
    "awsSecretAccessKey", TEXT, None, "Another name of `awsSecretKey`.", secret=True
)
SESSION_TOKEN: Final = Option(
    "sessionToken", TEXT, None, "Session token of temporary credentials.", secret=True
)
ROLE_ARN: Final = Option("roleArn", Kind("ARN", _role), None, "A role to assume.")
ROLE_EXTERNAL_ID: Final = Option("roleExternalId", TEXT, None, "External id for `roleArn`.", secret=True)
ROLE_SESSION_NAME: Final = Option("roleSessionName", TEXT, "flip27-stream", "Session name for `roleArn`.")
STS_ENDPOINT: Final = Option(
    "stsEndpoint", _URL, None, "URL of the AWS STS endpoint for the role's credentials."
)
REQUEST_TIMEOUT: Final = Option(
    "requestTimeout", POSITIVE_DURATION_OR_MS, "60 s", "How long a call is tried before the query fails."
)
INITIAL_POSITION: Final = Option(
    "initialPosition",
    Kind("`latest`, `trim_horizon`, `earliest`, or JSON with `at_timestamp`", parse_initial_position),
    "latest",
    "Where a new query begins.",
)
FAIL_ON_DATA_LOSS: Final = Option(
    "failOnDataLoss",
    BOOLEAN,
    "true",
    "Fail if records that must be read no longer exist, or a stream was deleted and created again.",
)
MAX_RECORDS_PER_TRIGGER: Final = Option(
    "maxRecordsPerTrigger",
    whole(),
    None,
    "How many records a micro-batch reads at most; see [estimates](#what-is-exact-and-what-is-estimated).",
)
MAX_BYTES_PER_TRIGGER: Final = Option(
    "maxBytesPerTrigger", whole(), None, "How many bytes a micro-batch reads at most, always an estimate."
)
MAX_FETCH_RATE: Final = Option(
    "maxFetchRate", _RATE, "1.0", "How many MB a second a process reads of one shard at most."
)
MIN_FETCH_PERIOD: Final = Option(
    "minFetchPeriod",
    DURATION_OR_MS,
    "400 ms",
    "The average time between two calls of a process for one shard; some calls may come at once.",
)
MAX_RECORDS_PER_FETCH: Final = Option(
    "maxRecordsPerFetch", whole(most=MOST_PER_FETCH), "10000", "How many records one call asks for."
)
SHARD_FETCH_INTERVAL: Final = Option(
    "shardFetchInterval", POSITIVE_DURATION_OR_MS, "1 s", "How often new shards are looked for."
)
SETTLING_TIME: Final = Option(
    "settlingTime",
    POSITIVE_DURATION_OR_MS,
    "1 s",
    "A busy shard is read only up to this time before now, so its records are read at least this much later.",
)
INCLUDE_SUB_SEQUENCE_NUMBER: Final = Option(
    "includeSubSequenceNumber",
    BOOLEAN,
    "false",
    "Adds a column `subSequenceNumber`: the place in an aggregated record, null for other records.",
)

OPTIONS: Final[tuple[Option[Any], ...]] = (
    STREAM_NAME,
    STREAM_ARN,
    REGION,
    ENDPOINT,
    AWS_ACCESS_KEY,
    AWS_ACCESS_KEY_ID,
    AWS_SECRET_KEY,
    AWS_SECRET_ACCESS_KEY,
    SESSION_TOKEN,
    ROLE_ARN,
    ROLE_EXTERNAL_ID,
    ROLE_SESSION_NAME,
    STS_ENDPOINT,
    REQUEST_TIMEOUT,
    INITIAL_POSITION,
    FAIL_ON_DATA_LOSS,
    MAX_RECORDS_PER_TRIGGER,
    MAX_BYTES_PER_TRIGGER,
    MAX_FETCH_RATE,
    MIN_FETCH_PERIOD,
    MAX_RECORDS_PER_FETCH,
    SHARD_FETCH_INTERVAL,
    SETTLING_TIME,
    INCLUDE_SUB_SEQUENCE_NUMBER,
    *FAN_OUT_OPTIONS,
)
"""All options that have an effect, in the order of the options page."""

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "maxFetchDuration": "the size of a micro-batch is planned, and not limited by time",
    "fetchBufferSize": "fetched records go to Spark at once",
    "coalesceThresholdBlockSize": "there are no prefetched blocks",
    "coalesceBinSize": "there are no prefetched blocks",
    "reuseKinesisClient": "clients are always reused within a task",
    "shardsPerTask": "shards are divided among as many tasks as can run at the same time",
    "maxShardsPerDescribe": "shards are listed with ListShards",
}
"""The options of Databricks' source that have no effect here, and the reasons."""

REFUSED: Final[Mapping[str, str]] = {
    "serviceCredential": "credentials come from boto3's chain, from keys or from a role",
    "awsSTSRoleARN": "the role is named by option 'roleArn'",
}
"""The options of Databricks' source that are refused, and the reason or remedy."""

SUPPORTED_OPTIONS: Final = canonical_names(OPTIONS)
"""The canonical spelling of the options that have an effect, by their names in lower case."""

KNOWN_OPTIONS: Final = SUPPORTED_OPTIONS | {name.lower(): name for name in (*WITHOUT_EFFECT, *REFUSED)}
"""The canonical spelling of all known options, by their names in lower case."""
