"""The options that name the partitions to read: ``subscribe``, ``subscribePattern``, ``assign``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from flip27_stream.connectors.kafka.options.java_character_classes import JavaPatternError
from flip27_stream.connectors.kafka.options.java_patterns import compile_java_pattern
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.connectors.kafka.subscriber import (
    KafkaSubscriber,
    PartitionSetSubscriber,
    TopicListSubscriber,
    TopicPatternSubscriber,
)
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import json_object
from flip27_stream.options.option import Kind, Option

_ASSIGN_EXAMPLE = 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}.'


def _topic_list(text: str, option: str) -> TopicListSubscriber:
    topics = sorted({name.strip() for name in text.split(",")} - {""})
    if not topics:
        raise OptionError(
            f"No topics to subscribe to as specified value for option '{option}' is '{text}'. Expected e.g. "
            "topicA,topicB."
        )
    return TopicListSubscriber(tuple(topics))


def _pattern(text: str, option: str) -> TopicPatternSubscriber:
    if not text.strip():
        raise OptionError(
            f"Pattern to subscribe is empty as specified value for option '{option}' is '{text}'. Expected e.g. topic.*"
        )
    try:
        return TopicPatternSubscriber(text.strip(), compile_java_pattern(text.strip()))
    except (JavaPatternError, re.error, OverflowError, RecursionError) as error:
        raise OptionError.of(
            option, text, f"Allowed: a regular expression, as Java has them: {error}."
        ) from error


def _partition_set(text: str, option: str) -> PartitionSetSubscriber:
    partitions = set()
    given = json_object(text, option, _ASSIGN_EXAMPLE) if text.strip().startswith("{") else {}
    for topic, numbers in given.items():
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise OptionError.of(option, text, _ASSIGN_EXAMPLE)
        partitions |= {TopicPartition(topic, n) for n in numbers}
    if not partitions:
        raise OptionError(
            f"No topicpartitions to assign as specified value for option '{option}' is '{text}'. {_ASSIGN_EXAMPLE}"
        )
    return PartitionSetSubscriber(frozenset(partitions))


SUBSCRIBE: Final[Option[KafkaSubscriber]] = Option(
    "subscribe",
    Kind("names with commas between", _topic_list),
    None,
    "Topics to read. The topics of this option, of `subscribePattern` and of `assign` may [change on a "
    "checkpoint](decisions.md#from-sparks-own-kafka-source).",
)
SUBSCRIBE_PATTERN: Final[Option[KafkaSubscriber]] = Option(
    "subscribePattern",
    Kind("Java regular expression", _pattern),
    None,
    "Topics to read: the expression must match the whole name.",
)
ASSIGN: Final[Option[KafkaSubscriber]] = Option(
    "assign",
    Kind('JSON such as `{"clicks":[0,1]}`', _partition_set),
    None,
    "Partitions to read. Exactly one of `subscribe`, `subscribePattern` and `assign` must be given.",
)

OPTIONS: Final = (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN)


def parse_subscriber(options: Mapping[str, str]) -> KafkaSubscriber:
    """Returns the subscriber that exactly one of these options describes.

    Args:
        options: The options of the query, by their names in lower case.

    Raises:
        OptionError: No option or more than one is given, or the value is wrong.
    """
    chosen = [option for option in OPTIONS if option.is_given(options)]
    one_of = f"{', '.join(option.name for option in OPTIONS)}. See the docs for more details."
    if not chosen:
        raise OptionError(f"One of the following options must be specified for Kafka source: {one_of}")
    if len(chosen) > 1:
        raise OptionError(f"Only one of the following options can be specified for Kafka source: {one_of}")
    return chosen[0].require(options)
