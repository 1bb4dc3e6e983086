"""The checks that all given options are known and supported."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Mapping, Sequence

from flip27_stream.errors import OptionError, listed
from flip27_stream.options.flink_names import hint_for

_OF_QUERIES = ("scan.watermark.", "scan.source.id")
_OF_WRITERS = {name.lower(): name for name in ("checkpointLocation", "outputMode", "queryName")}


def check_known(
    options: Collection[str],
    known: Mapping[str, str],
    prefixes: Collection[str] = (),
    suggested: Sequence[Mapping[str, str]] = (),
) -> None:
    """Checks that all given options are known.

    Args:
        options: The names of the given options, in lower case.
        known: The canonical spelling of known options, by their names in lower case.
        prefixes: A name that starts with one of these, and is longer, is known (``scan.watermark.``).
        suggested: The parts of ``known`` that a message may name: the options of the source, then those that all
            sources have. By default all of ``known``.

    Raises:
        OptionError: An option is unknown; the message names it, and the most similar option or some of each list.
    """
    starts = tuple(prefix.lower() for prefix in prefixes)
    lists = [names for names in suggested or (known,) if names]
    names = {key: name for some in lists for key, name in some.items()}
    for name in sorted(options):
        if name in known or (name.startswith(starts) and name not in starts):
            continue
        if name in _OF_WRITERS:
            raise OptionError(f"Unknown option '{_OF_WRITERS[name]}'. It belongs to writeStream.")
        if name.startswith(_OF_QUERIES) and not any(key.startswith(_OF_QUERIES) for key in known):
            raise OptionError(
                f"Unknown option '{name}'. It is an option of a query, not of a source that is made in code: give it "
                "to readStream."
            )
        similar = _of_prefix(name, known, starts) or _most_similar(name, names)
        hint = hint_for(name, known) or (
            f"Did you mean '{names.get(similar[0], similar[0])}'?"
            if similar
            else f"Known: {'; of all sources: '.join(listed(some, near=name) for some in lists)}."
        )
        raise OptionError(f"Unknown option '{name}'. {hint}")


def _of_prefix(name: str, known: Collection[str], prefixes: Collection[str]) -> list[str]:
    """Returns the form of the options below a known option (``table.option.<name>``), if ``name`` is below it."""
    above = {prefix: prefix.removesuffix(".").rpartition(".")[0] for prefix in prefixes}
    return [f"{prefix}<name>" for prefix, of in above.items() if of in known and name.startswith(f"{of}.")]


def _most_similar(name: str, names: Collection[str]) -> list[str]:
    """Returns the most similar names, the best one first; names with the same last part come before others."""
    last = name.rpartition(".")[2]
    similar = difflib.get_close_matches(name, names)
    return sorted(similar, key=lambda other: other.rpartition(".")[2] != last)


def check_not_refused(options: Collection[str], refused: Mapping[str, str]) -> None:
    """Checks that no option is given that is known and cannot be honoured.

    Args:
        options: The names of the given options, in lower case.
        refused: The reason why an option is not supported, and what to do, by the name of the option.

    Raises:
        OptionError: A refused option is given.
    """
    for name, reason in refused.items():
        if name.lower() in options:
            raise OptionError(f"Option '{name}' cannot be honoured: {reason}.")


def check_supported(
    options: Collection[str],
    refused: Mapping[str, str],
    without_effect: Mapping[str, str],
    log: logging.Logger,
) -> None:
    """Checks the options of other sources that this source knows and does not support.

    Args:
        options: The names of the given options, in lower case.
        refused: The reason why an option is not supported, and what to do, by the name of the option.
        without_effect: The reason why an option has no effect, by the name of the option; ``log`` logs a warning.
        log: The logger of the source.

    Raises:
        OptionError: An option is not supported.
    """
    check_not_refused(options, refused)
    for name, reason in without_effect.items():
        if name.lower() in options:
            log.warning("Option '%s' has no effect: %s.", name, reason)
