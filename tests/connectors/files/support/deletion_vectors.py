"""Writes Delta tables with deletion vectors or column mapping without a JVM. delta-rs writes neither."""

from __future__ import annotations

import re
from base64 import b85encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema
from pyroaring import BitMap64

from tests.connectors.files.support.delta_tables import commit

MAGIC = (1681511377).to_bytes(4, "little")
OF_DELTA = bytes.maketrans(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
)


def inline(rows: Iterable[int]) -> dict[str, Any]:
    """Returns the descriptor of a deletion vector that is in the log."""
    data = MAGIC + BitMap64(rows).serialize()
    text = b85encode(data + b"\0" * (-len(data) % 4)).translate(OF_DELTA).decode()
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(data),
        "cardinality": len(set(rows)),
    }


def in_file(table: Path, rows: Iterable[int], prefix: str = "") -> dict[str, Any]:
    """Writes a file with two deletion vectors, and returns the descriptor of the second one."""
    name, data = uuid4(), MAGIC + BitMap64(rows).serialize()
    path = table / prefix / f"deletion_vector_{name}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [len(data).to_bytes(4, "big"), data, crc32(data).to_bytes(4, "big")]
    path.write_bytes(b"".join([b"\1", *parts, *parts]))
    text = prefix + b85encode(name.bytes).translate(OF_DELTA).decode()
    where = {"storageType": "u", "pathOrInlineDv": text, "offset": 1 + len(data) + 8}
    return {**where, "sizeInBytes": len(data), "cardinality": len(set(rows))}


def create(table: Path, schema: pa.Schema, configuration: Mapping[str, str] | None = None) -> None:
    """Writes version 0: a table without rows, with these features."""
    (table / "_delta_log").mkdir(parents=True, exist_ok=True)
    features = ["deletionVectors", "columnMapping", "timestampNtz"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}
    commit(
        table,
        0,
        {"protocol": {**protocol, "writerFeatures": features}},
        metadata(schema, configuration or {}),
    )


def metadata(schema: pa.Schema, configuration: Mapping[str, str], id: str = "t") -> dict[str, Any]:
    """Returns the action that sets the columns of a table."""
    given = {"id": id, "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    return {
        "metaData": {**given, "schemaString": schema_string(schema), "configuration": dict(configuration)}
    }


def add(
    table: Path, rows: pa.Table, vector: Mapping[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """Writes a file with these rows, and returns the action that adds it. ``vector`` marks the deleted rows."""
    name = f"part-{uuid4()}.parquet"
    pq.write_table(rows, table / name, **options)
    return added(table / name, vector)


def added(file: Path, vector: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Returns the action that adds an existing file."""
    known = {"path": file.name, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 5}
    described = {} if vector is None else {"deletionVector": dict(vector)}
    return {"add": {**known, "dataChange": True, **described, **more}}


def removed(action: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the action that removes what another action added."""
    add = action["add"]
    vector = {"deletionVector": add["deletionVector"]} if "deletionVector" in add else {}
    return {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 6, **vector}}


def mapped(one: pa.Field, physical: str, number: int) -> pa.Field:
    """Returns a column of a table with column mapping."""
    said = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": str(number)}
    return one.with_metadata(said)


def schema_string(schema: pa.Schema) -> str:
    """Returns the columns in the form of the log, where ids are numbers."""
    return re.sub(r'("delta.columnMapping.id":)"(\d+)"', r"\1\2", Schema.from_arrow(schema).to_json())
