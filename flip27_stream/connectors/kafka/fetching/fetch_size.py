"""The size of the next fetch of one split, estimated from the batches that its fetches have returned."""

from __future__ import annotations

from flip27_stream.connectors.kafka.records.batch_headers import CompleteBatches

_LEAST_FETCH = 64 << 10
_GUESSED_RECORD = 1 << 10
_VARIATION = 1 / 32


class FetchSize:
    """Estimates how many bytes of a log a range takes.

    A broker cuts its answer off at the size of the fetch, in the middle of a batch, which it sends again in the next
    answer. With batches of a megabyte that is a sixth of all bytes. If all batches have about the same size, as those
    of bulk loads, a fetch is therefore as large as some of them.
    """

    def __init__(self) -> None:
        self._bytes_per_offset: float = _GUESSED_RECORD
        self._greatest = 0
        self._is_regular = False

    def add(self, received: CompleteBatches, offsets: int) -> None:
        """Records the answer to a fetch.

        Args:
            received: Its complete batches.
            offsets: The number of offsets, at least 1, that they take.
        """
        self._bytes_per_offset = received.size / offsets
        greatest = max(received.greatest, self._greatest)
        self._is_regular = greatest <= received.least * (1 + _VARIATION)
        self._greatest = received.greatest

    def next(self, offsets: int, most: int) -> int:
        """Returns the size of the next fetch, in bytes.

        It is enough for the rest of the range, whose last batch may go on after it, or for as many whole batches as fit
        in ``most``.

        Args:
            offsets: The number of offsets that are left of the range.
            most: The greatest size.
        """
        rest = int(offsets * self._bytes_per_offset * (1 + _VARIATION)) + self._greatest
        if rest <= most:
            return min(max(_LEAST_FETCH, rest), most)
        whole = int(self._greatest * (1 + _VARIATION)) if self._is_regular else 0
        return most // whole * whole if 0 < whole <= most else most
