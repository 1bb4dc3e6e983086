"""Every error this project raises on purpose, in one tree.

::

    Flip27Error
    ├── OptionError                 an option's name or value is wrong; raised when the query is defined
    ├── CheckpointError             a stored offset cannot be used
    │   ├── CorruptCheckpointError      the offset cannot be parsed, or its parts contradict each other
    │   ├── NewerCheckpointError        a newer release wrote the offset
    │   └── ForeignCheckpointError      another source wrote the offset
    ├── ConnectorError              the external system refused or could not be reached
    │   ├── UnreachableError            no answer within the time limit, or nothing at the given address or path
    │   ├── AuthenticationError         a broker refuses the credentials, or its certificate is not trusted
    │   ├── MissingTopicError           a topic or partition that was asked for does not exist
    │   ├── SchemaChangedError          a table has other columns than the query that reads it
    │   ├── CorruptRecordError          bytes of a log do not decode, or do not match their checksum
    │   └── ContractError               a source's own code breaks a rule of the source API
    ├── DataLossError               the system no longer has records that the query must read (failOnDataLoss)
    ├── RecordFormatError           a record does not fit value.format or the schema that the user gave
    ├── EventTimeError              an event time cannot be used
    │   └── ImplausibleEventTimeError   an event time is further in the future than scan.watermark.max-future
    ├── AlignmentError              alignment cannot be kept as configured
    ├── MissingExtraError           a package is not installed that this query or tool needs
    └── UnsupportedSparkError       this Spark lacks what Python streaming sources need; raised when registering

The text of an error names the thing, the value and what to do. It must be enough alone, because Spark shows a user
only the class name and the text of an error of the planning process. All errors are picklable: the text is their only
argument.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

_LONGEST = 200
_MOST_LISTED, _SOME = 8, 5
_END = r"(?=\n\s*\n|\n\s*at |\nTraceback |\nDuring handling |\nThe above exception |\s*SQLSTATE|\s*\Z)"
_TEXT = re.compile(
    rf"^(?:flip27_stream|offsets|watermark_alignment)[\w.]*\.(?P<kind>\w+): (?P<text>.*?){_END}",
    re.MULTILINE | re.DOTALL,
)
"""A pattern that finds the text of an error of this project in the text of the Spark error that wraps it."""
_OTHER = re.compile(
    rf"Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n)+(?P<kind>[A-Za-z_][\w.]*)(?P<text>: .*?|){_END}",
    re.DOTALL,
)
"""Finds the text of another Python error in it, such as one of a source of one's own."""


def message_of(error: BaseException | str) -> str:
    """Returns the message of the error that made a query fail, without the long StreamingQueryException around it.

    ::

        try:
            query.awaitTermination()
        except StreamingQueryException as failed:
            print(flip27_stream.errors.message_of(failed))

    Args:
        error: The error that Spark raised, or its text; or an error of this project.

    Returns:
        The class and the text of the innermost error of this project in ``error``. Without such an error, the class and
        the text of the last Python error, such as an error of your own source. Without a Python error, the whole text
        of ``error``.
    """
    if isinstance(error, Flip27Error):
        return f"{type(error).__name__}: {error}"
    whole = str(error)
    if found := list(_TEXT.finditer(whole)):
        return f"{found[-1]['kind']}: {found[-1]['text'].strip()}"
    others = list(_OTHER.finditer(whole))
    return f"{others[-1]['kind']}{others[-1]['text'].rstrip()}" if others else whole


def shortened(text: str) -> str:
    """Returns ``text``, cut to the first 200 characters for an error message."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def nearest(name: str, known: Mapping[str, str]) -> list[str]:
    """Returns the five values of ``known`` whose keys are most similar to ``name``, the most similar first."""
    return [known[near] for near in difflib.get_close_matches(name, known, n=_SOME, cutoff=0.0)]


def listed(known: Mapping[str, str], near: str | None = None) -> str:
    """Returns the values of ``known`` for an error message: up to eight of them, or five and the number of the others.

    Args:
        known: The values to list, by name.
        near: The name that the user gave: the five values with the most similar names are listed. ``None``: the
            first five are listed.
    """
    if len(known) <= _MOST_LISTED:
        return ", ".join(known.values())
    some = list(known.values())[:_SOME] if near is None else nearest(near, known)
    return some_of(some, of=len(known))


def some_of(names: Sequence[str], separator: str = ", ", *, of: int | None = None) -> str:
    """Returns the first five of ``names`` and the number of the others, as text for an error message.

    Args:
        names: The names, or only the first ones.
        separator: The text between two names.
        of: The number of all names, if ``names`` are only the first ones.
    """
    others = (len(names) if of is None else of) - len(names[:_SOME])
    return separator.join(names[:_SOME]) + (f" and {others:,} more" if others else "")


class Flip27Error(Exception):
    """The base class of all errors of this project."""


class OptionError(Flip27Error, ValueError):
    """The name or the value of an option is wrong. :meth:`of` returns an error that says what is allowed."""

    @classmethod
    def of(cls, option: str, value: object, allowed: str) -> OptionError:
        return cls(f"Invalid value for option '{option}': {shortened(repr(value))}. {allowed}")


class CheckpointError(Flip27Error):
    """A stored offset cannot be used."""


class CorruptCheckpointError(CheckpointError):
    """A stored offset cannot be parsed, or its parts contradict each other."""


class NewerCheckpointError(CheckpointError):
    """A stored offset was written by a newer release."""


class ForeignCheckpointError(CheckpointError):
    """A stored offset belongs to another source."""


class ConnectorError(Flip27Error):
    """The external system refused a request or could not be reached."""


class UnreachableError(ConnectorError):
    """The external system did not answer within the time limit, or has nothing at the given address or path.

    A later attempt may succeed.
    """


class AuthenticationError(ConnectorError):
    """A broker refuses the credentials, or presents a certificate that is not trusted."""


class MissingTopicError(ConnectorError):
    """A topic or partition that was asked for does not exist."""


class SchemaChangedError(ConnectorError):
    """A table has other columns than the query that reads it; the query must be defined again."""


class CorruptRecordError(ConnectorError):
    """Bytes of a log do not decode, or do not match their checksum."""


class ContractError(ConnectorError):
    """A source's own code breaks a rule of the source API. This is found before the mistake can reach an offset."""


class DataLossError(Flip27Error):
    """The external system no longer has records that the query must read; see option ``failOnDataLoss``."""


class RecordFormatError(Flip27Error):
    """A record does not fit ``value.format``, or the schema that the user gave."""


class EventTimeError(Flip27Error):
    """An event time cannot be used."""


class ImplausibleEventTimeError(EventTimeError):
    """An event time is further in the future than ``scan.watermark.max-future`` allows."""


class AlignmentError(Flip27Error):
    """Alignment cannot be kept as configured."""


class MissingExtraError(Flip27Error, ImportError):
    """A package that this query or tool needs is not installed; the message names the extra that installs it."""


class UnsupportedSparkError(Flip27Error):
    """This Spark lacks what Python streaming sources need."""
