"""Columns of a Delta table that change: under a running query, while the query is stopped, and before it starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from flip27_stream.connectors.files import FileSource
from flip27_stream.connectors.files.delta.delta_columns import ReadColumns
from flip27_stream.connectors.files.delta.delta_commit import TableColumns
from flip27_stream.connectors.files.delta.delta_log import DeltaLog
from flip27_stream.errors import ConnectorError, OptionError, SchemaChangedError
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from tests.connectors.files.support.delta_tables import add_rows, commit, fails, query, reads, running

READ = pa.schema(
    {"id": pa.int64(), "at": pa.struct({"x": pa.int64(), "y": pa.list_(pa.struct({"z": "string"}))})}
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    add_rows(path, range(10))
    return path


def with_name(table: Path, ids: range) -> None:
    """Commits rows with a new column ``name``."""
    add_rows(table, ids, {"name": [f"row {n}" for n in ids]}, schema_mode="merge")


def test_a_new_column_fails_a_running_query_and_a_restart_reads_it(table: Path) -> None:
    """A new column fails a running query, as in Spark (DELTA_SCHEMA_CHANGED). After a restart no row lacks the
    column, and no row comes twice.
    """
    reading = running(table)
    add_rows(table, range(10, 20))
    with_name(table, range(20, 30))
    with pytest.raises(
        SchemaChangedError, match=r"Version 2 .*column 'name' \(string\).*files\.schema-change"
    ):
        fails(reading)
    with_name(table, range(30, 40))
    reading.restart()
    reads(reading, 40)
    names = {row["id"]: row.get("name") for row in reading.rows}
    assert names == {n: f"row {n}" if n >= 20 else None for n in range(40)}


def test_a_new_column_that_came_while_the_query_was_stopped(table: Path) -> None:
    reading = running(table)
    with_name(table, range(10, 20))
    reading.restart()
    reads(reading, 20)
    assert {row["name"] for row in reading.rows[10:]} == {f"row {n}" for n in range(10, 20)}


@pytest.mark.parametrize("begun", [False, True])
def test_a_definition_from_before_the_change(table: Path, begun: bool) -> None:
    """A DataFrame of load() is older than a change of columns, and its query starts, or starts
    again, after the change.
    """
    reading = running(table) if begun else query(table)
    reading.coordinator.close()
    with_name(table, range(10, 20))
    coordinator = SourceCoordinator(reading._spec)
    with pytest.raises(SchemaChangedError, match=r"The Delta table .*column 'name'.*load\(\)"):
        coordinator.latest_offset(reading.offset, 1000)
    coordinator.close()


def test_a_change_between_two_questions_of_the_first_look(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column is added after the columns were compared and before the snapshot is taken. The snapshot is refused."""
    snapshot = DeltaLog.snapshot

    def late(self: DeltaLog, *asked: Any) -> Any:
        monkeypatch.setattr(DeltaLog, "snapshot", snapshot)
        with_name(table, range(10, 20))
        return snapshot(self, *asked)

    monkeypatch.setattr(DeltaLog, "snapshot", late)
    with pytest.raises(SchemaChangedError, match="column 'name'"):
        running(table)


def test_the_query_goes_on_with_its_columns_where_the_option_says_so(
    table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reading = running(table, **{"files.schema-change": "ignore"})
    with_name(table, range(10, 20))
    reads(reading, 20)
    assert all(set(row) == {"ts", "id"} for row in reading.rows)
    assert "column 'name' (string) is not among the query's" in caplog.text


def test_columns_that_the_user_did_not_name_do_not_matter(table: Path) -> None:
    reading = running(table, schema=pa.schema({"id": pa.int64()}))
    with_name(table, range(10, 20))
    reads(reading, 20)


def test_a_column_that_the_user_named_gets_another_type(table: Path) -> None:
    reading = running(table, schema=pa.schema({"id": pa.int64()}), ignoreChanges="true")
    rows = pa.table({"id": pa.array(["ten"])})

    write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(
        SchemaChangedError, match=r"column 'id' is string, which the query reads as int64.*\.schema"
    ):
        fails(reading)


def test_columns_change_while_a_version_is_partly_read(table: Path) -> None:
    """Files from before and after a change of columns are planned in one range, and read by a query that
    knows the new column.
    """
    for first in range(10, 40, 10):
        add_rows(table, range(first, first + 10))
    reading = query(table, startingVersion="1", maxFilesPerTrigger="1")
    assert reading.step()
    with_name(table, range(40, 50))
    reading.restart()
    reading.run()
    names = {row["id"]: row.get("name") for row in reading.rows}
    assert names == {n: f"row {n}" if n >= 40 else None for n in range(10, 50)}


def test_settings_are_no_change_of_columns(table: Path) -> None:

    reading = running(table)
    DeltaTable(table).alter.set_table_properties({"delta.logRetentionDuration": "interval 7 days"})
    add_rows(table, range(10, 20))
    reads(reading, 20)


@pytest.mark.parametrize(
    ("table_columns", "said"),
    [
        ({"id": "int64"}, None),
        ({"ID": "int32"}, None),
        ({"id": "int64", "more": "string"}, "column 'more'"),
        ({"id": "float64"}, "column 'id' is double"),
        ({"at": pa.struct({"x": pa.int64()})}, None),
        ({"at": pa.struct({"x": pa.int64(), "w": pa.int64()})}, "field 'at.w'"),
        (
            {"at": pa.struct({"y": pa.list_(pa.struct({"z": "string", "w": "string"}))})},
            "field 'at.y.element.w'",
        ),
        ({"at": pa.struct({"x": "string"})}, "column 'at' is struct"),
    ],
)
def test_columns_fit_if_their_types_are_compatible(
    table_columns: dict[str, pa.DataType], said: str | None
) -> None:
    columns, now = ReadColumns(READ, inferred=True), TableColumns(pa.schema(table_columns))
    if said is None:
        assert columns.mapping(now, None, "The table") is None
    else:
        with pytest.raises(SchemaChangedError, match=said):
            columns.mapping(now, None, "The table")


def test_the_option_is_for_delta_tables(table: Path) -> None:
    with pytest.raises(OptionError, match=r"files\.schema-change.*goes with files\.format delta"):
        FileSource({"path": str(table), "files.schema-change": "ignore"})
    with pytest.raises(OptionError, match=r"files\.schema-change"):
        query(table, **{"files.schema-change": "go on"})


def refused(kind: str) -> list[dict[str, Any]]:
    """Returns the actions of a commit that any table may get and that cannot be read."""
    features: dict[str, Any] = {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": []}
    added = {"path": "a.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    vector = {
        "storageType": "p",
        "pathOrInlineDv": "file:/x",
        "offset": 1,
        "sizeInBytes": 1,
        "cardinality": 1,
    }
    columns = [{"name": "v", "type": {"type": "udt", "class": "x"}, "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": columns})
    plain = json.dumps({"type": "struct", "fields": [{**columns[0], "type": "string"}]})
    form = {"provider": "parquet", "options": {}}
    meta = {"id": "x", "format": form, "schemaString": schema, "partitionColumns": [], "configuration": {}}
    variant = {**features, "readerFeatures": ["typeWidening", "variantType"]}
    of_catalog = {
        "readerFeatures": ["catalogManaged"],
        "writerFeatures": ["catalogManaged", "inCommitTimestamp"],
    }
    coordinated = {"delta.coordinatedCommits.commitCoordinator-preview": "dynamodb"}
    kinds: dict[str, list[dict[str, Any]]] = {
        "variant": [{"protocol": variant}],
        "a type of one's own": [{"metaData": meta}],
        "commits of a catalog": [{"protocol": {**features, **of_catalog}}],
        "coordinated commits": [{"metaData": {**meta, "schemaString": plain, "configuration": coordinated}}],
        "a later protocol": [{"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}],
        "deletion vectors": [{"add": {**added, "deletionVector": vector}}],
        "a shallow clone": [{"add": {**added, "path": "s3://elsewhere/a.parquet"}}],
        "no form": [{"add": {"dataChange": True}}],
    }
    return kinds[kind]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("variant", "variantType: columns of type variant are not read"),
        ("a type of one's own", "has a column of type udt, which is not read. Copy the table without"),
        ("commits of a catalog", "catalogManaged: the newest commits are in its catalog"),
        ("coordinated commits", r"has a commit coordinator \('dynamodb'.*Read a copy of it"),
        ("a later protocol", "protocol version 4"),
        ("deletion vectors", "deletion vector file:/x of storage type 'p'.*shallow clone"),
        ("a shallow clone", "lies elsewhere"),
        ("no form", "does not have Delta's format"),
    ],
)
def test_columns_that_cannot_be_read_fail_a_running_query_at_once(table: Path, kind: str, said: str) -> None:
    reading = running(table)
    commit(table, 1, *refused(kind))
    with pytest.raises(ConnectorError, match=said):
        fails(reading)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("a type of one's own", "has a column of type udt, which is not read"),
        ("commits of a catalog", "catalogManaged: the newest commits are in its catalog"),
        ("coordinated commits", r"has a commit coordinator \('dynamodb'.*Read a copy of it"),
    ],
)
def test_a_table_that_cannot_be_read_fails_a_query_at_its_start(table: Path, kind: str, said: str) -> None:
    commit(table, 1, *refused(kind))
    with pytest.raises(ConnectorError, match=said):
        query(table)


def test_a_table_whose_coordinator_was_dropped_is_read(table: Path) -> None:
    """All its commits are in its log then, also the one that turned coordinated commits on."""
    reading = running(table)
    actions = map(json.loads, (table / "_delta_log" / f"{0:020}.json").read_text().splitlines())
    (found,) = [action["metaData"] for action in actions if "metaData" in action]
    (coordinated,) = refused("coordinated commits")
    commit(table, 1, {"metaData": found | {"configuration": coordinated["metaData"]["configuration"]}})
    commit(table, 2, {"metaData": found})
    add_rows(table, range(10, 20))
    reads(reading, 20)
