"""Errors of file systems and object stores. They are divided into transient errors and refusals."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from flip27_stream.connectors.files.storage.store_parameters import CREDENTIALS, OPTION_PREFIX
from flip27_stream.errors import ConnectorError, UnreachableError

_REFUSED: Final = re.compile(
    r"access.?denied|permission.?denied|forbidden|unauthorized|unauthenticated|invalid.?access.?key|"
    r"signature.?does.?not.?match|account.?is.?disabled",
    re.IGNORECASE,
)
"""Words in error messages that mean a refusal, for Arrow and delta-rs, which raise a plain OSError."""

_INCOMPLETE: Final = re.compile(
    r"not found|no such file|does not exist|didn't find any checkpoints|no table metadata or protocol found",
    re.IGNORECASE,
)
"""Words in error messages of delta-rs that mean that a file of the log is missing."""

_COLOUR: Final = re.compile(r"\x1b\[\d*m|↳")
_STACK: Final = re.compile(r"\n\s*0: .*", re.DOTALL)


def storage_error(what: str, error: BaseException, uri: str = "") -> ConnectorError:
    """Returns the error for an OSError of a file system.

    It is a :class:`ConnectorError` if access was refused, otherwise an :class:`UnreachableError`.

    Args:
        what: A sentence about the failure, without a full stop.
        error: The cause.
        uri: The address of the store, for a sentence about its credentials; empty for local files.
    """
    refused = isinstance(error, PermissionError) or _REFUSED.search(str(error)) is not None
    return (ConnectorError if refused else UnreachableError)(
        f"{what}: {cause(error)}.{credentials_remedy(uri)}"
    )


def credentials_remedy(uri: str) -> str:
    """Returns a sentence about the credentials of an object store, with a space before it; empty for local files."""
    scheme = urlsplit(uri).scheme
    if scheme in ("", "file"):
        return ""
    names = next((names for start, names in CREDENTIALS.items() if scheme.startswith(start) and names), None)
    of_names = "" if names is None else f" ({', '.join(names)})"
    return (
        f" If the store needs credentials, give them as options {OPTION_PREFIX}<name>{of_names}, or on each machine. "
        "Permissions granted in a catalog do not reach it."
    )


def is_incomplete(error: BaseException) -> bool:
    """Returns whether an error of delta-rs means that a file of the log is missing.

    Another attempt can succeed: the log was cleaned up while it was read, or a mount returned during the read.
    """
    return _INCOMPLETE.search(str(error)) is not None


def cause(error: BaseException) -> str:
    """Returns the text of an error on one line, without colour codes and without a stack trace."""
    text = _STACK.sub("", _COLOUR.sub("", str(error)))
    return " ".join(text.split()).rstrip(".") or type(error).__name__
