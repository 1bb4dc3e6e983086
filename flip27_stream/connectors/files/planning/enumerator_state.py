"""The checkpoint of the enumerator of files, and its serializer."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Sequence

from flip27_stream.api import JsonValue, SimpleVersionedSerializer
from flip27_stream.connectors.files.backlog.digest import Bucket, FileSetDigest
from flip27_stream.connectors.files.backlog.marks import MARK_BYTES
from flip27_stream.connectors.files.backlog.processed_files import Frontier, ProcessedFilesState
from flip27_stream.connectors.files.delta.delta_state import DeltaState
from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping
from flip27_stream.errors import CorruptCheckpointError

FilesState = ProcessedFilesState | DeltaState
Marks = tuple[bytes, ...]


class FilesStateSerializer(SimpleVersionedSerializer[FilesState]):
    """Serializes the state of folders or of a Delta table.

    * Folders: ``{"seen": [cut, until, frontiers, buckets, recent, late, last, rest, gone]}``
    * Delta tables: ``{"delta": [through, until, frontiers, table, columns]}``

    A frontier is ``[column, time, path]``, or ``[column]`` before the first file. A bucket is ``[until, files,
    digest]`` with a hexadecimal digest. The rest is ``[files, digest]`` or null. Marks are concatenated and in Base64.
    Version 1 had neither ``rest`` nor ``gone``. Version 2 had no ``columns``, which are left out if the table has no
    column mapping.
    """

    version = 3

    def serialize(self, value: FilesState) -> JsonValue:
        frontiers = [_frontier_to_json(frontier) for frontier in value.frontiers]
        if isinstance(value, DeltaState):
            columns = [] if value.columns is None else [value.columns.to_json()]
            return {"delta": [value.through, value.until, frontiers, value.table, *columns]}
        buckets: list[JsonValue] = [[b.until, b.files, f"{b.digest:016x}"] for b in value.buckets]
        many = (value.recent, value.late, value.gone)
        recent, late, gone = (b64encode(b"".join(one)).decode() for one in many)
        rest: JsonValue = None if value.rest is None else [value.rest.files, f"{value.rest.digest:016x}"]
        return {"seen": [value.cut, value.until, frontiers, buckets, recent, late, value.last, rest, gone]}

    def deserialize(self, version: int, data: JsonValue) -> FilesState:
        self.check_version("state of the enumerator of files", version)
        try:
            match data:
                case {
                    "delta": [
                        int(through),
                        int() | None as until,
                        list(frontiers),
                        str() | None as table,
                        *columns,
                    ]
                } if len(columns) <= (1 if version > 2 else 0):
                    mapping = ColumnMapping.from_json(columns[0]) if columns else None
                    return DeltaState(through, until, _frontiers(frontiers), table, mapping)
                case {"seen": [int(cut), int() | None as until, list(frontiers), list(buckets), *others]}:
                    others = [*others, None, ""] if version == 1 else others
                    return ProcessedFilesState(
                        cut, until, _frontiers(frontiers), _buckets(buckets), *_others(others)
                    )
        except (TypeError, ValueError, NotBase64):
            pass
        raise CorruptCheckpointError(
            f"The state of the enumerator of files (version {version}) does not have the form of that "
            f"version: {data!r:.500}."
        )


def _frontier_to_json(frontier: Frontier) -> JsonValue:
    return [frontier.by] if frontier.last is None else [frontier.by, *frontier.last]


def _frontiers(data: Iterable[object]) -> tuple[Frontier, ...]:
    frontiers = []
    for one in data:
        match one:
            case [str() | None as by]:
                frontiers.append(Frontier(by))
            case [str() | None as by, int(time), str(path)]:
                frontiers.append(Frontier(by, (time, path)))
            case _:
                raise ValueError(f"not a frontier: {one!r}")
    return tuple(frontiers)


def _buckets(data: Iterable[object]) -> tuple[Bucket, ...]:
    buckets = []
    for one in data:
        match one:
            case [int(until), int(files), str(digest)]:
                buckets.append(Bucket(until, files, int(digest, 16)))
            case _:
                raise ValueError(f"not a bucket: {one!r}")
    return tuple(buckets)


def _others(data: Sequence[object]) -> tuple[Marks, Marks, int | None, FileSetDigest | None, Marks]:
    match data:
        case [str(recent), str(late), int() | None as last, list() | None as rest, str(gone)]:
            return _marks(recent), _marks(late), last, _rest(rest), _marks(gone)
    raise ValueError(data)


def _rest(data: list[object] | None) -> FileSetDigest | None:
    match data:
        case None:
            return None
        case [int(files), str(digest)]:
            return FileSetDigest(files, int(digest, 16))
    raise ValueError(data)


def _marks(text: str) -> Marks:
    data = b64decode(text, validate=True)
    if len(data) % MARK_BYTES:
        raise ValueError(f"not a list of marks: {text!r}")
    return tuple(data[i : i + MARK_BYTES] for i in range(0, len(data), MARK_BYTES))
