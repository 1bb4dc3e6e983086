"""A base class for outputs of a reader that have an output for each split."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection

import pyarrow as pa

from flip27_stream.api import ReaderOutput


class SplitOutputs(ReaderOutput):
    """Receives the records of a reader in an output for each split.

    A reader of a single split can also emit into this object itself.
    """

    @property
    @abstractmethod
    def split_ids(self) -> Collection[str]:
        """The splits of the reader."""

    def collect(
        self,
        records: pa.RecordBatch,
        timestamps: pa.Int64Array | None = None,
        positions: pa.Int64Array | None = None,
    ) -> None:
        if len(self.split_ids) != 1:
            raise ValueError("a reader of several splits must emit through create_output_for_split")
        (split,) = self.split_ids
        self.create_output_for_split(split).collect(records, timestamps, positions)
