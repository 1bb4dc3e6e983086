"""A digest of many files, of a fixed size, that proves later that no file was added to them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from flip27_stream.connectors.files.storage.found_file import FoundFile

BUCKETS: Final = 64


class Bucket(NamedTuple):
    """Files whose modification time is above that of the bucket before.

    Attributes:
        until: greatest modification time (ms) that belongs to it.
        files: how many.
        digest: exclusive or of their identities.
    """

    until: int
    files: int
    digest: int


class Rest(NamedTuple):
    """What is left of a fixed number of files.

    Attributes:
        files: how many.
        digest: exclusive or of their identities.
    """

    files: int
    digest: int

    @classmethod
    def of(cls, files: Collection[FoundFile]) -> Rest:
        """The number and the digest of ``files``."""
        return cls(len(files), _exclusive_or(map(identity, files)))

    def without(self, file: FoundFile) -> Rest:
        """The number and the digest without ``file``."""
        return Rest(max(self.files - 1, 0), self.digest ^ identity(file))

    def are_among(self, files: Collection[FoundFile]) -> bool:
        """Whether ``files`` are these files. If ``files`` are more, they are taken for a superset."""
        return len(files) > self.files or Rest.of(files) == self


class Digest:
    """Counts and exclusive-ors the identities of files, in buckets by modification time."""

    def __init__(self, buckets: Sequence[Bucket] = ()) -> None:
        self._buckets = list(buckets)

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        return tuple(self._buckets)

    def add(self, files: Iterable[FoundFile]) -> None:
        """Take in files."""
        ordered = sorted(files, key=lambda file: file.modified)
        full = max(sum(b.files for b in self._buckets) + len(ordered), BUCKETS) // BUCKETS
        for file in ordered:
            at = bisect_left(self._buckets, file.modified, key=_until)
            if at == len(self._buckets):
                if at and self._buckets[-1].files < full:
                    at -= 1
                else:
                    self._buckets.append(Bucket(file.modified, 0, 0))
            self._change(at, file, 1)
        self._merge()

    def remove(self, file: FoundFile) -> None:
        """Forget a file that was taken in."""
        at = bisect_left(self._buckets, file.modified, key=_until)
        self._change(at, file, -1)
        if not self._buckets[at].files:
            del self._buckets[at]

    def sort_out(self, files: Iterable[FoundFile]) -> tuple[list[FoundFile], list[Mismatch]]:
        """Which of ``files`` are none of the digest, as far as that can be told; and where it cannot.

        What was told apart, and what was lost, is corrected in the digest.
        """
        listed: list[list[FoundFile]] = [[] for _ in self._buckets]
        strangers: list[FoundFile] = []
        unproven: list[Mismatch] = []
        for file in files:
            at = bisect_left(self._buckets, file.modified, key=_until)
            (listed[at] if at < len(listed) else strangers).append(file)
        observed: list[Bucket] = []
        for bucket, there in zip(self._buckets, listed, strict=True):
            hashes = {identity(file): file for file in there}
            seen = _exclusive_or(hashes)
            appeared = _appeared(bucket.digest ^ seen, len(there) - bucket.files, hashes)
            if appeared is None:
                since = observed[-1].until if observed else 0
                unproven.append(Mismatch(since, bucket.until, bucket.files, len(there)))
                appeared = ()
            strangers += [hashes[h] for h in appeared]
            digest = seen ^ _exclusive_or(appeared)
            observed.append(Bucket(bucket.until, len(there) - len(appeared), digest))
        self._buckets = [bucket for bucket in observed if bucket.files]
        return strangers, unproven

    def _change(self, at: int, file: FoundFile, by: int) -> None:
        until, files, digest = self._buckets[at]
        self._buckets[at] = Bucket(max(until, file.modified), files + by, digest ^ identity(file))

    def _merge(self) -> None:
        """The neighbours that are smallest together become one, until there are few enough."""
        while len(self._buckets) > BUCKETS:
            pairs = range(len(self._buckets) - 1)
            at = min(pairs, key=lambda i: self._buckets[i].files + self._buckets[i + 1].files)
            one, other = self._buckets[at : at + 2]
            merged = Bucket(other.until, one.files + other.files, one.digest ^ other.digest)
            self._buckets[at : at + 2] = [merged]


class Mismatch(NamedTuple):
    """A bucket whose files are not those that were taken in.

    Where there are as many or more, some were added for certain; else some were lost, and more cannot be said.
    """

    after: int
    until: int
    remembered: int
    there: int


def identity(file: FoundFile) -> int:
    """64 bits that stand for a file in this very version."""
    version = f"{file.path}\0{file.modified}\0{file.size}"
    return int.from_bytes(blake2b(version.encode(), digest_size=8, usedforsecurity=False).digest(), "big")


def _appeared(difference: int, more: int, listed: dict[int, FoundFile]) -> tuple[int, ...] | None:
    """The identities that were added, if there are none, one or two and nothing was lost; ``None`` if unknown.

    A bucket that is empty now has nothing added, whatever it lost.
    """
    if not listed or (more == 0 and not difference):
        return ()
    if more == 1 and difference in listed:
        return (difference,)
    if more == 2 and difference:
        for one in listed:
            if difference ^ one in listed:
                return one, difference ^ one
    return None


def _exclusive_or(hashes: Iterable[int]) -> int:
    digest = 0
    for one in hashes:
        digest ^= one
    return digest


def _until(bucket: Bucket) -> int:
    return bucket.until
