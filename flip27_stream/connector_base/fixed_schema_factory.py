"""The base class of factories of sources whose columns follow from their options alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from flip27_stream.api import Source, WatermarkStrategy
from flip27_stream.errors import OptionError

SourceT = TypeVar("SourceT", bound=Source[Any, Any])


class FixedSchemaFactory(Generic[SourceT]):
    """Creates sources of a format whose columns users cannot choose.

    Attributes:
        name: The name of the format.
        make: The class of the sources, which is called with options, a watermark strategy and ``bounded``.
    """

    name: ClassVar[str]
    make: Callable[..., SourceT]

    def check(self, options: Mapping[str, str]) -> None:
        """Checks the options.

        Raises:
            OptionError: An option is wrong for a stream.
        """
        self.make(options)

    def schema(self, options: Mapping[str, str]) -> pa.Schema:
        """Returns the schema of the rows.

        Raises:
            OptionError: An option is wrong for a stream.
        """
        return self.make(options).schema

    def create(
        self,
        options: Mapping[str, str],
        strategy: WatermarkStrategy,
        *,
        bounded: bool = False,
        schema: pa.Schema | None = None,
        inferred: bool = False,
    ) -> SourceT:
        """Returns the source that these options describe.

        Raises:
            OptionError: An option is wrong, or ``schema`` is not that of the source.
        """
        source = self.make(options, strategy, bounded=bounded)
        if schema is not None and not schema.equals(source.schema):
            raise OptionError(
                f"Format '{self.name}' has a fixed schema; leave out .schema(...). It has the columns "
                f"{', '.join(source.schema.names)}, not {', '.join(schema.names)}."
            )
        return source
