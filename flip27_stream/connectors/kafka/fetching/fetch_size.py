"""The size of the next fetch of one split, estimated from the batches that its fetches have returned."""

from __future__ import annotations

from flip27_stream.connectors.kafka.records.batch_headers import CompleteBatches

_LEAST_FETCH = 64 << 10
_GUESSED_RECORD = 1 << 10
_VARIATION = 1 / 32


class FetchSize:
    """Estimates how many bytes of a log a range takes.

    A broker cuts its answer off at the size of the fetch, in the middle of a batch, which it sends again in the next
    answer. If batches are as large as those of bulk loads, a fourth of all bytes would be sent twice.
    """

    def __init__(self) -> None:
        self._bytes_per_offset: float = _GUESSED_RECORD
        self._batch_size = 0

    def add(self, received: CompleteBatches, offsets: int) -> None:
        """Records the answer to a fetch.

        Args:
            received: Its complete batches.
            offsets: The number of offsets, at least 1, that they take.
        """
        self._bytes_per_offset = received.size / offsets
        self._batch_size = received.last_size

    def next(self, offsets: int, most: int) -> int:
        """Returns the size of the next fetch, in bytes.

        It is enough for the rest of the range, whose last batch may go on after it, or for as many whole batches as fit
        in ``most``.

        Args:
            offsets: The number of offsets that are left of the range.
            most: The greatest size.
        """
        rest = int(offsets * self._bytes_per_offset * (1 + _VARIATION)) + self._batch_size
        if rest <= most:
            return min(max(_LEAST_FETCH, rest), most)
        whole = int(self._batch_size * (1 + _VARIATION))
        return most // whole * whole if 0 < whole <= most else most
