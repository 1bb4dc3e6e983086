"""A listing with a time limit. A network file system that does not answer blocks a system call for ever."""

from __future__ import annotations

from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.connectors.files.storage.listing import FileListing
from flip27_stream.local_calls import LocalCall, blocked

FilesByPath = dict[str, list[FoundFile]]


class WatchedListing:
    """Lists files in a separate thread, and waits as long as it continues to find files.

    Only local folders are watched, because they can be mounts. The thread of a blocked listing cannot be stopped. No
    second listing is started at the same time: the next call waits for the same listing.
    """

    def __init__(self, listing: FileListing) -> None:
        self._listing = listing
        self._under_way: LocalCall[FilesByPath] | None = None

    def __call__(self) -> FilesByPath:
        """Returns the files as :meth:`FileListing.by_path` does, and raises the same errors.

        Raises:
            UnreachableError: The listing is blocked.
            ConnectorError: The thread cannot be started.
        """
        if self._listing.storage.uri:  # Stores have time-outs, and return all files at once.
            return self._listing.by_path()
        if self._under_way is None:
            self._under_way = LocalCall(self._listing.by_path)
        found = self._under_way.wait()
        if found is None:
            raise blocked(f"Listing {', '.join(self._listing.paths)}", "nothing was found")
        self._under_way = None
        return found()
