"""The messages with which connectors refuse options."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from flip27_stream.errors import OptionError


def refusal_by(parse: Callable[[Mapping[str, str]], object], given: Mapping[str, str], **more: str) -> str:
    """Returns the message of the error that a parser of options raises.

    Args:
        parse: The parser.
        given: Options that it accepts.
        more: Further options, which it refuses.
    """
    with pytest.raises(OptionError) as refused:
        parse({**given, **more})
    return str(refused.value)
