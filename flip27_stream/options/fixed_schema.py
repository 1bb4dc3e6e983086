"""The check of formats whose columns users cannot choose."""

from __future__ import annotations

import pyarrow as pa

from flip27_stream.errors import OptionError


def check_fixed_schema(name: str, columns: pa.Schema, given: pa.Schema | None) -> None:
    """Checks the schema that a user gave.

    Args:
        name: The name of the format.
        columns: The columns of the format.
        given: The schema of ``.schema(...)``; ``None`` if there is none.

    Raises:
        OptionError: The schema is not that of the format.
    """
    if given is not None and not given.equals(columns):
        raise OptionError(
            f"Format '{name}' has a fixed schema; leave out .schema(...). It has the columns "
            f"{', '.join(columns.names)}, not {', '.join(given.names)}."
        )
