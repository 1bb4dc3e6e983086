"""Digests of fixed size over many files, which detect later whether files were added to them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from flip27_stream.connectors.files.storage.found_file import FoundFile

BUCKETS: Final = 64


class Bucket(NamedTuple):
    """The files with a modification time in one interval, which begins after the interval of the bucket before.

    Attributes:
        until: The greatest modification time (ms) of the interval.
        files: The number of files.
        digest: The exclusive or of the identities of the files.
    """

    until: int
    files: int
    digest: int


class FileSetDigest(NamedTuple):
    """The number and the digest of files, such as those of a bounded source that are not processed yet.

    Attributes:
        files: The number of files.
        digest: The exclusive or of the identities of the files.
    """

    files: int
    digest: int

    @classmethod
    def of(cls, files: Collection[FoundFile]) -> FileSetDigest:
        """Returns the number and the digest of ``files``."""
        return cls(len(files), _exclusive_or(map(identity, files)))

    def without(self, file: FoundFile) -> FileSetDigest:
        """Returns the number and the digest after ``file`` is removed."""
        return FileSetDigest(max(self.files - 1, 0), self.digest ^ identity(file))

    def are_among(self, files: Collection[FoundFile]) -> bool:
        """Returns whether ``files`` contain all of these files.

        With more files in ``files`` the answer is true, without a check. With an equal number the digests are
        compared. With fewer it is false.
        """
        return len(files) > self.files or FileSetDigest.of(files) == self


class Digest:
    """The number and the exclusive or of the identities of files, in buckets by modification time."""

    def __init__(self, buckets: Sequence[Bucket] = ()) -> None:
        self._buckets = list(buckets)

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        return tuple(self._buckets)

    def add(self, files: Iterable[FoundFile]) -> None:
        """Adds files to the digest."""
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
        """Removes a file that was added before."""
        at = bisect_left(self._buckets, file.modified, key=_until)
        self._change(at, file, -1)
        if not self._buckets[at].files:
            del self._buckets[at]

    def sort_out(
        self, files: Iterable[FoundFile]
    ) -> tuple[list[FoundFile], list[BucketMismatch], list[IncompleteBucket]]:
        """Finds the files that are not in the digest, and the buckets where they cannot be found.

        The digest is changed to the files that are listed now, without those that were found to be new.

        Args:
            files: All files that are listed now.

        Returns:
            The files that are not in the digest, the buckets whose difference to the listing cannot be explained, and
            the buckets whose files the listing lacks.
        """
        listed: list[list[FoundFile]] = [[] for _ in self._buckets]
        unknown: list[FoundFile] = []
        unproven: list[BucketMismatch] = []
        incomplete: list[IncompleteBucket] = []
        since = -1
        for file in files:
            at = bisect_left(self._buckets, file.modified, key=_until)
            (listed[at] if at < len(listed) else unknown).append(file)
        observed: list[Bucket] = []
        for bucket, there in zip(self._buckets, listed, strict=True):
            hashes = {identity(file): file for file in there}
            seen = _exclusive_or(hashes)
            appeared = _appeared(bucket.digest ^ seen, len(there) - bucket.files, hashes)
            if appeared is None:
                unproven.append(BucketMismatch(max(since, 0), bucket.until, bucket.files, len(there)))
                appeared = ()
            if len(there) < bucket.files:
                missing = FileSetDigest(bucket.files - len(there), bucket.digest ^ seen)
                incomplete.append(IncompleteBucket(since, bucket.until, missing))
            since = bucket.until
            unknown += [hashes[h] for h in appeared]
            digest = seen ^ _exclusive_or(appeared)
            observed.append(Bucket(bucket.until, len(there) - len(appeared), digest))
        self._buckets = [bucket for bucket in observed if bucket.files]
        return unknown, unproven, incomplete

    def _change(self, at: int, file: FoundFile, by: int) -> None:
        until, files, digest = self._buckets[at]
        self._buckets[at] = Bucket(max(until, file.modified), files + by, digest ^ identity(file))

    def _merge(self) -> None:
        """Merges the two neighbouring buckets with the fewest files, until at most ``BUCKETS`` are left."""
        while len(self._buckets) > BUCKETS:
            pairs = range(len(self._buckets) - 1)
            at = min(pairs, key=lambda i: self._buckets[i].files + self._buckets[i + 1].files)
            one, other = self._buckets[at : at + 2]
            merged = Bucket(other.until, one.files + other.files, one.digest ^ other.digest)
            self._buckets[at : at + 2] = [merged]


class BucketMismatch(NamedTuple):
    """A bucket whose files differ from the listing, where the digest cannot tell which files were added.

    If the listing has as many files or more, at least one file was added. If it has fewer, at least one was removed,
    and it is unknown whether others were added.

    Attributes:
        after: The end (ms) of the interval before: the files were modified after this time.
        until: The end (ms) of the interval.
        remembered: The number of files in the bucket.
        there: The number of files in the listing.
    """

    after: int
    until: int
    remembered: int
    there: int


class IncompleteBucket(NamedTuple):
    """A bucket of which files are missing in a listing, if no others were added to it.

    Attributes:
        after: All files of the bucket were modified after this time (ms).
        until: No file of the bucket was modified after this time (ms).
        files: The number and the digest of the missing files.
    """

    after: int
    until: int
    files: FileSetDigest

    def has(self, file: FoundFile) -> bool:
        """Returns whether the modification time of a file lies in the bucket."""
        return self.after < file.modified <= self.until


def identity(file: FoundFile) -> int:
    """Returns a hash of 64 bits of the path, the modification time and the size of a file."""
    version = f"{file.path}\0{file.modified}\0{file.size}"
    return int.from_bytes(blake2b(version.encode(), digest_size=8, usedforsecurity=False).digest(), "big")


def _appeared(difference: int, more: int, listed: dict[int, FoundFile]) -> tuple[int, ...] | None:
    """Returns the identities of the files that were added to a bucket.

    The result for an empty listing is empty.

    Args:
        difference: The exclusive or of the digests of bucket and listing.
        more: The number of files that the listing has more than the bucket.
        listed: The files of the listing, by identity.

    Returns:
        No, one or two identities; ``None`` if more files were added or if files were removed.
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
