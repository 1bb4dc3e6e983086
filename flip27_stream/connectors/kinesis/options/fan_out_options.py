"""The options of enhanced fan-out (``consumerMode`` ``efo``), which name the registered consumer that a query uses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import BOOLEAN, POSITIVE_DURATION_OR_MS, TEXT, any_text, words
from flip27_stream.options.option import Kind, Option

_POLLING, _FAN_OUT = "polling", "efo"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ARN = re.compile(
    r"arn:aws[a-z-]*:kinesis:[a-z0-9-]+:\d{12}:stream/([A-Za-z0-9_.-]+)/consumer/[A-Za-z0-9_.-]+:\d+"
)
_LONGEST_REFRESH_MS = 3_600_000


def _refresh(text: str, option: str) -> int:
    interval = POSITIVE_DURATION_OR_MS.parse(text, option)
    if interval > _LONGEST_REFRESH_MS:
        raise OptionError.of(option, text, "Allowed: a duration longer than 0 and of at most 3600 s.")
    return interval


CONSUMER_MODE: Final = Option(
    "consumerMode",
    words(_POLLING, _FAN_OUT),
    _POLLING,
    "How tasks read records: they poll the shards, or a registered consumer subscribes to them ([enhanced "
    "fan-out](#enhanced-fan-out)).",
)
CONSUMER_NAME: Final = Option(
    "consumerName", TEXT, None, "With `efo`: the name of the consumer that the query registers."
)
CONSUMER_NAME_PREFIX: Final = Option(
    "consumerNamePrefix", TEXT, "flip27_", "The prefix of `consumerName` in the registered name."
)
CONSUMER_REFRESH_INTERVAL: Final = Option(
    "consumerRefreshInterval",
    Kind("duration > 0, at most `3600 s`", _refresh),
    "300 s",
    "How often the driver checks that the consumer is registered. It registers `consumerName` again if not.",
)
REQUIRE_CONSUMER_DEREGISTRATION: Final = Option(
    "requireConsumerDeregistration",
    BOOLEAN,
    "false",
    "The driver de-registers the consumer when the query ends.",
)
REGISTERED_CONSUMER_ID: Final = Option(
    "registeredConsumerId",
    any_text("names or ARNs, separated by commas"),
    None,
    "With `efo`, instead of `consumerName`: consumers that are registered already. One name for all streams, or one "
    "name or ARN for each stream.",
)
REGISTERED_CONSUMER_ID_TYPE: Final = Option(
    "registeredConsumerIdType",
    words("name", "arn"),
    None,
    "Whether `registeredConsumerId` has names or ARNs. Required with it.",
)

_OF_FAN_OUT: Final = (
    CONSUMER_NAME,
    CONSUMER_NAME_PREFIX,
    CONSUMER_REFRESH_INTERVAL,
    REQUIRE_CONSUMER_DEREGISTRATION,
    REGISTERED_CONSUMER_ID,
    REGISTERED_CONSUMER_ID_TYPE,
)
FAN_OUT_OPTIONS: Final[tuple[Option[Any], ...]] = (CONSUMER_MODE, *_OF_FAN_OUT)


@dataclass(frozen=True)
class FanOutOptions:
    """The checked options of enhanced fan-out.

    Attributes:
        consumers: Pairs of a stream, as the query names it, and the name or the ARN of its consumer.
        is_ours: Whether the query registers the consumers; otherwise they must be registered already.
        refresh_interval_ms: The time between two checks of the registration.
        deregister: Whether the driver de-registers the consumers when the query ends.
    """

    consumers: tuple[tuple[str, str], ...]
    is_ours: bool
    refresh_interval_ms: int
    deregister: bool

    def consumer_of(self, stream: str) -> str:
        """Returns the name or the ARN of the stream's consumer."""
        return dict(self.consumers)[stream]


def parse_fan_out(given: Mapping[str, str], streams: Sequence[str]) -> FanOutOptions | None:
    """Returns the checked options of enhanced fan-out; ``None`` if the query polls the shards.

    Args:
        given: The options of a query, by their names in lower case.
        streams: The names or ARNs of the streams of the query.

    Raises:
        OptionError: An option is missing or wrong, or is given though the query polls.
    """
    if CONSUMER_MODE.require(given) == _POLLING:
        for option in _OF_FAN_OUT:
            if option.is_given(given):
                raise OptionError(
                    f"Option '{option.name}' needs option 'consumerMode' to be efo. "
                    f"Leave out '{option.name}', or set 'consumerMode' to efo."
                )
        return None
    if CONSUMER_NAME.is_given(given) == REGISTERED_CONSUMER_ID.is_given(given):
        raise OptionError(
            "Option 'consumerMode' is efo. Set one of the options 'consumerName' (a consumer that the query registers) "
            "and 'registeredConsumerId' (one that is registered already)."
        )
    is_ours = CONSUMER_NAME.is_given(given)
    return FanOutOptions(
        consumers=_named_by_us(given, streams) if is_ours else _registered(given, streams),
        is_ours=is_ours,
        refresh_interval_ms=CONSUMER_REFRESH_INTERVAL.require(given),
        deregister=_deregister(given, is_ours=is_ours),
    )


def _named_by_us(given: Mapping[str, str], streams: Sequence[str]) -> tuple[tuple[str, str], ...]:
    if REGISTERED_CONSUMER_ID_TYPE.is_given(given):
        raise OptionError(
            "Option 'registeredConsumerIdType' needs option 'registeredConsumerId'. Give both, or neither."
        )
    name = f"{CONSUMER_NAME_PREFIX.require(given).strip()}{CONSUMER_NAME.require(given).strip()}"
    if not _NAME.fullmatch(name):
        raise CONSUMER_NAME.wrong(
            name, "Allowed: letters, digits, '_', '.' and '-', at most 128 with the prefix."
        )
    return tuple((stream, name) for stream in streams)


def _registered(given: Mapping[str, str], streams: Sequence[str]) -> tuple[tuple[str, str], ...]:
    if CONSUMER_NAME_PREFIX.is_given(given):
        raise OptionError("Option 'consumerNamePrefix' needs option 'consumerName'. Give both, or neither.")
    if not REGISTERED_CONSUMER_ID_TYPE.is_given(given):
        raise OptionError(
            "Option 'registeredConsumerId' needs option 'registeredConsumerIdType'. Allowed: name, arn."
        )
    text = REGISTERED_CONSUMER_ID.require(given)
    ids = [part.strip() for part in text.split(",")]
    if REGISTERED_CONSUMER_ID_TYPE.require(given) == "arn":
        return _by_arn(ids, streams)
    if not all(_NAME.fullmatch(name) for name in ids) or len(ids) not in (1, len(streams)):
        raise REGISTERED_CONSUMER_ID.wrong(
            text,
            "Allowed: one name for all streams, or one for each stream in their order, separated by commas.",
        )
    return tuple(zip(streams, ids * len(streams) if len(ids) == 1 else ids, strict=True))


def _by_arn(arns: Sequence[str], streams: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Returns each stream with the ARN of its consumer, which contains the name of the stream."""
    of_stream = {found[1]: arn for arn in arns if (found := _ARN.fullmatch(arn))}
    names = [stream.rpartition("/")[2] for stream in streams]
    if len(of_stream) != len(arns) or set(of_stream) != set(names):
        raise REGISTERED_CONSUMER_ID.wrong(
            ",".join(arns),
            "Allowed: one arn:aws:kinesis:REGION:ACCOUNT:stream/NAME/consumer/CONSUMER:NUMBER for each stream of the "
            "query, separated by commas.",
        )
    return tuple((stream, of_stream[name]) for stream, name in zip(streams, names, strict=True))


def _deregister(given: Mapping[str, str], *, is_ours: bool) -> bool:
    wanted = REQUIRE_CONSUMER_DEREGISTRATION.require(given)
    if wanted and not is_ours:
        raise OptionError(
            "Option 'requireConsumerDeregistration' needs option 'consumerName': a query de-registers only the "
            "consumer that it registers."
        )
    return wanted
