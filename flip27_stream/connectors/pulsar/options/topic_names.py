"""The full names of topics."""

from __future__ import annotations

import re

from flip27_stream.errors import OptionError

_NAME = re.compile(r"(?:(persistent|non-persistent)://)?(?:([^/\s]+)/([^/\s]+)/)?([^/\s]+)")


def full_name(topic: str, option: str) -> str:
    """Returns the full name (``persistent://tenant/namespace/topic``) of a topic.

    Raises:
        OptionError: The text is not a name of a topic, or the topic is not persistent.
    """
    found = _NAME.fullmatch(topic.strip())
    if found is None or (found[1] is not None and found[2] is None):
        raise OptionError.of(option, topic, "Allowed: topic, or persistent://tenant/namespace/topic.")
    if found[1] == "non-persistent":
        raise OptionError.of(
            option,
            topic,
            "Topics that are not persistent cannot be read again after a failure. Name a persistent topic.",
        )
    return f"persistent://{found[2] or 'public'}/{found[3] or 'default'}/{found[4]}"
