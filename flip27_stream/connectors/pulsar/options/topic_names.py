"""The full names of topics."""

from __future__ import annotations

import re

from flip27_stream.errors import OptionError

_NAME = re.compile(r"(?:(persistent|non-persistent)://)?(?:([^/\s]+)/([^/\s]+)/)?([^/\s,]+)")
_ALLOWED = "topic, or persistent://tenant/namespace/topic. Several topics are named in option 'topics'."
_PARTITION = re.compile(r"-partition-\d+$", re.ASCII)


def full_name(topic: str, option: str) -> str:
    """Returns the full name (``persistent://tenant/namespace/topic``) of a topic.

    Raises:
        OptionError: The text is not a name of a topic, or the topic is not persistent.
    """
    found = _NAME.fullmatch(topic.strip())
    if found is None or (found[1] is not None and found[2] is None):
        raise OptionError.of(option, topic, f"Allowed: {_ALLOWED}")
    if found[1] == "non-persistent":
        raise not_persistent(topic, option)
    return f"persistent://{found[2] or 'public'}/{found[3] or 'default'}/{found[4]}"


def not_persistent(topic: str, option: str) -> OptionError:
    """Returns the error about a topic, or a pattern of topics, that are not persistent."""
    return OptionError.of(
        option,
        topic,
        "Topics that are not persistent cannot be read again after a failure. Name persistent topics.",
    )


def topic_of(partition: str) -> str:
    """Returns the name of the topic of a partition; a name that is not that of a partition is that of the topic."""
    return _PARTITION.sub("", partition)
