"""Options that say which partitions are read: ``subscribe``, ``subscribePattern``, ``assign``."""

from __future__ import annotations

import re

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
from flip27_stream.options.option_values import OptionValues, json_object

OPTION_NAMES = ("subscribe", "subscribePattern", "assign")

_ASSIGN_EXAMPLE = 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}.'


def parse_subscriber(values: OptionValues) -> KafkaSubscriber:
    """Of these options exactly one is given.

    Raises:
        OptionError: none is, several are, or the value is wrong.
    """
    chosen = [name for name in OPTION_NAMES if values.has(name)]
    one_of = f"{', '.join(OPTION_NAMES)}. See the docs for more details."
    if not chosen:
        raise OptionError(f"One of the following options must be specified for Kafka source: {one_of}")
    if len(chosen) > 1:
        raise OptionError(f"Only one of the following options can be specified for Kafka source: {one_of}")
    text = values.text(chosen[0]) or ""
    return {"subscribe": _topic_list, "subscribePattern": _pattern, "assign": _partition_set}[chosen[0]](text)


def _topic_list(text: str) -> TopicListSubscriber:
    topics = sorted({name.strip() for name in text.split(",")} - {""})
    if not topics:
        raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'")
    return TopicListSubscriber(tuple(topics))


def _pattern(text: str) -> TopicPatternSubscriber:
    if not text.strip():
        raise OptionError(
            f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{text}'"
        )
    try:
        return TopicPatternSubscriber(text.strip(), compile_java_pattern(text.strip()))
    except (JavaPatternError, re.error, OverflowError, RecursionError) as error:
        raise OptionError.of(
            "subscribePattern", text, f"Allowed: a regular expression, as Java has them: {error}."
        ) from error


def _partition_set(text: str) -> PartitionSetSubscriber:
    if not text.strip().startswith("{"):
        raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
    partitions = set()
    for topic, numbers in json_object("assign", text, _ASSIGN_EXAMPLE).items():
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise OptionError.of("assign", text, _ASSIGN_EXAMPLE)
        partitions |= {TopicPartition(topic, n) for n in numbers}
    if not partitions:
        raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
    return PartitionSetSubscriber(frozenset(partitions))
