"""Reports lost data, as an error or a warning according to option ``failOnDataLoss``."""

from __future__ import annotations

import logging

from flip27_stream.errors import DataLossError


def report_data_loss(
    log: logging.Logger,
    what: str,
    *,
    fail: bool,
    remedy: str = "To go on with the data that is left, set option 'failOnDataLoss' to false.",
    goes_on: str = "The query goes on",
) -> None:
    """Raises an error about lost data, or logs a warning.

    Args:
        log: Logs the warning.
        what: The lost data and the cause, in whole sentences.
        fail: The value of option ``failOnDataLoss``.
        remedy: The end of the error: what the user can do.
        goes_on: The end of the warning: how the query goes on.

    Raises:
        DataLossError: ``fail`` is set.
    """
    if fail:
        raise DataLossError(f"{what} {remedy}")
    log.warning("%s %s, since option 'failOnDataLoss' is false.", what, goes_on)
