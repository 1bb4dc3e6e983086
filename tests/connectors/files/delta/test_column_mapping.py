"""Column mapping and type widening, on tables written by hand. The names in files are not those of the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping, MappedColumn
from flip27_stream.errors import ConnectorError, RecordFormatError, SchemaChangedError
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from tests.connectors.files.support.deletion_vectors import add, create, inline, mapped, metadata
from tests.connectors.files.support.delta_tables import commit, fails, query, reads, running
from tests.connectors.files.support.file_query import SECOND

TIME = pa.timestamp("us", "UTC")


def columns(time: str = "ts", id: str = "id", inner: str = "x") -> pa.Schema:
    """Returns a table's columns. In files they are c1, c2 and c3, and c3 has a field c4."""
    point = pa.struct([mapped(pa.field(inner, pa.int64()), "c4", 4)])
    return pa.schema(
        [
            mapped(pa.field(time, TIME), "c1", 1),
            mapped(pa.field(id, pa.int64()), "c2", 2),
            mapped(pa.field("at", pa.list_(point)), "c3", 3),
        ]
    )


def by(mode: str) -> dict[str, str]:
    return {"delta.columnMapping.mode": mode}


def rows(ids: range, *, numbered: bool = True) -> pa.Table:
    """Returns rows whose columns have the names in files and, if ``numbered``, their ids."""

    def field(name: str, kind: pa.DataType, number: int) -> pa.Field:
        return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)} if numbered else None)

    times = pa.array([n * SECOND * 1000 + 1000 for n in ids], pa.int64()).cast(TIME)
    points = [[{"c4": n}, None] for n in ids]
    point = pa.struct([field("c4", pa.int64(), 4)])
    fields = [field("c1", TIME, 1), field("c2", pa.int64(), 2), field("c3", pa.list_(point), 3)]
    return pa.table([times, pa.array(ids, pa.int64()), pa.array(points, pa.list_(point))], pa.schema(fields))


def swapped(table: pa.Table) -> pa.Table:
    return table.rename_columns(["c2", "c1", "c9"])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    create(path, columns(), by("name"))
    commit(path, 1, add(path, rows(range(20)), inline([3]), row_group_size=5))
    return path


def test_files_are_read_by_id_where_the_table_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t"
    create(path, columns(), by("id"))
    commit(path, 1, add(path, swapped(rows(range(20))), inline([3]), row_group_size=5))
    reading = query(path, maxRowsPerTrigger="4", drift="3 s")
    while reading.step() is not None:
        reading.restart()
    assert [row["id"] for row in reading.rows] == [n for n in range(20) if n != 3]
    assert reading.rows[0]["at"] == [{"x": 0}, None]
    commit(path, 2, add(path, rows(range(20, 30), numbered=False)))
    reading.restart()
    with pytest.raises(RecordFormatError, match=r"has no column ids.*columnMapping\.mode is id"):
        reading.run()


@pytest.mark.parametrize("drift", [None, "3 s"])
def test_names_in_files_are_found_in_any_case(tmp_path: Path, drift: str | None) -> None:
    """A table can be made from files whose names differ only in case, as by ``CONVERT TO DELTA``."""
    path = tmp_path / "t"
    create(path, columns(), by("name"))
    point = pa.struct([("C4", pa.int64())])
    other = rows(range(10, 20)).rename_columns(["C1", "C2", "C3"])
    other = other.set_column(2, "C3", pa.array([[{"C4": n}, None] for n in range(10, 20)], pa.list_(point)))
    commit(path, 1, add(path, rows(range(10))), add(path, other))
    reading = query(path, **({} if drift is None else {"drift": drift}))
    reading.run()
    assert sorted((row["id"], row["at"][0]["x"]) for row in reading.rows) == [(n, n) for n in range(20)]
    assert None not in {row["ts"] for row in reading.rows}


@pytest.mark.parametrize("drift", [None, "3 s"])
def test_columns_that_were_renamed_between_restarts(table: Path, drift: str | None) -> None:
    """Columns are renamed in the middle of a file. The rest of it comes under the new names, and so do
    files of older commits.
    """
    options = {"maxRowsPerTrigger": "4", **({} if drift is None else {"drift": drift})}
    reading = query(table, **options)
    assert reading.step()
    assert reading.state[1]["delta"][4]["columns"]["id"] == ["c2", 2]
    with_w = columns().append(mapped(pa.field("w", pa.string()), "c5", 5))
    commit(table, 2, metadata(with_w, by("name")), add(table, rows(range(20, 25))))
    commit(table, 3, metadata(columns(id="number", inner="y"), by("name")), add(table, rows(range(25, 30))))
    reading.restart()
    reading.run()
    named = [row["id"] if "id" in row else row["number"] for row in reading.rows]
    assert sorted(named) == [n for n in range(30) if n != 3]
    assert reading.rows[-1] == {**reading.rows[-1], "number": named[-1], "at": [{"y": named[-1]}, None]}
    assert "w" not in reading.rows[-1]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (columns(id="number"), "column 'id' is named 'number' now"),
        (columns(inner="y"), "column 'at.element.x' is named 'y' now"),
        (columns().remove(1), "column 'id' was dropped"),
        (columns().set(1, mapped(pa.field("id", pa.int64()), "c9", 9)), "column 'id' was dropped"),
        (pa.schema([pa.field(one.name, one.type) for one in columns()]), "column 'id' was dropped"),
        (columns().append(mapped(pa.field("w", pa.string()), "c5", 5)), "column 'w' .* is not among"),
        (columns().set(1, mapped(pa.field("id", pa.string()), "c2", 2)), "column 'id' is string"),
    ],
)
def test_columns_that_change_under_a_running_query(table: Path, now: pa.Schema, said: str) -> None:
    """A change of columns fails a running query. No column is read as null that a file has under a name
    that the query knew.
    """
    reading = running(table)
    reads(reading, 19)
    mode = by("none") if not any(one.metadata for one in now) else by("name")
    commit(table, 2, metadata(now, mode), add(table, rows(range(20, 25))))
    with pytest.raises(SchemaChangedError, match=said):
        fails(reading)
    assert len(reading.rows) == 19


def test_a_query_with_columns_from_before_a_change(table: Path) -> None:
    """A query that the user gave columns fails if one of them is renamed. An old name is not read as null
    unless an option says so.
    """
    schema = pa.schema([("ts", TIME), ("id", pa.int64())])
    reading = running(table, schema)
    reads(reading, 19)
    commit(table, 2, metadata(columns(id="number"), by("name")), add(table, rows(range(20, 25))))
    reading.restart()
    with pytest.raises(SchemaChangedError, match="column 'id' is named 'number' now"):
        fails(reading)
    reading._options = {**reading._options, "files.schema-change": "ignore"}
    reading.restart()
    reads(reading, 24)
    assert sorted(reading.ids()) == [n for n in range(25) if n != 3]


def test_column_mapping_that_is_turned_on_and_off(tmp_path: Path) -> None:
    """ALTER TABLE turns column mapping on with the names of the table. Without the mapping, files with
    other names are not read.
    """
    path = tmp_path / "t"
    schema = pa.schema([("ts", TIME), ("id", pa.int64())])
    plain = rows(range(10)).select(["c1", "c2"]).rename_columns(["ts", "id"])
    create(path, schema)
    commit(path, 1, add(path, plain))
    reading = running(path)
    reads(reading, 10)
    on = pa.schema([mapped(one, one.name, at) for at, one in enumerate(schema, 1)])
    commit(path, 2, metadata(on, by("name")), add(path, plain))
    reads(reading, 20)
    renamed = pa.schema([mapped(pa.field("time", TIME), "ts", 1), on.field(1)])
    commit(path, 3, metadata(renamed, by("name")))
    with pytest.raises(SchemaChangedError, match="column 'ts' is named 'time' now"):
        fails(reading)
    reading.restart()
    reading.run()
    commit(path, 4, add(path, plain))
    reads(reading, 30)
    assert set(reading.rows[-1]) == {"time", "id"}
    commit(path, 5, metadata(pa.schema([("time", TIME), ("id", pa.int64())]), by("none")))
    reading.restart()
    with pytest.raises(
        SchemaChangedError, match="'time' is 'ts' in files, and the table has no column mapping"
    ):
        reading.run()


def test_a_query_defined_before_a_rename_fails(table: Path) -> None:
    reading = query(table)
    commit(table, 2, metadata(columns(id="number"), by("name")))
    coordinator = SourceCoordinator(reading._spec)
    with pytest.raises(SchemaChangedError, match=r"column 'number' \(int64\) is not among the query's"):
        coordinator.latest_offset(reading.offset, 1000)
    coordinator.close()
    reading.coordinator.close()


def test_a_mapping_survives_the_checkpoint() -> None:
    mapping = ColumnMapping.of(columns(), by("id"))
    assert mapping is not None
    assert ColumnMapping.from_json(json.loads(json.dumps(mapping.to_json()))) == mapping
    for damaged in ([1], {"by": "name"}, {"by": "x", "columns": {}}, {"by": "id", "columns": {"a": [1]}}):
        with pytest.raises(ValueError, match=r"."):
            ColumnMapping.from_json(damaged)


class CountingColumns(dict[str, MappedColumn]):
    """Columns that count how often they are gone through."""

    passes = 0

    def items(self) -> Any:
        self.passes += 1
        return super().items()


@pytest.mark.parametrize("by_id", [False, True])
def test_a_wide_batch_is_renamed_in_one_pass_over_the_columns(by_id: bool) -> None:
    """A table can have thousands of columns, so that a pass for each of them would take longer than reading."""
    names = [f"c{n}" for n in range(50)]
    columns = CountingColumns({f"column {n}": MappedColumn(name, n) for n, name in enumerate(names)})
    fields = [
        pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(n)}) for n, name in enumerate(names)
    ]
    stored = pa.RecordBatch.from_arrays([pa.array([n]) for n in range(50)], schema=pa.schema(fields))
    renamed = ColumnMapping(by_id, columns).renamed(stored)
    assert renamed.to_pylist() == [{f"column {n}": n for n in range(50)}]
    assert columns.passes == 1


@pytest.mark.parametrize(
    ("narrow", "wide", "values"),
    [
        (pa.int32(), pa.int64(), [1000 * n for n in range(20)]),
        (pa.date32(), pa.timestamp("us"), list(range(20))),
    ],
)
@pytest.mark.parametrize("statistics", [True, False])
def test_event_time_whose_type_was_widened(
    tmp_path: Path, narrow: pa.DataType, wide: pa.DataType, values: list[int], statistics: bool
) -> None:
    """Files from before the change have the narrower type, also in their statistics."""
    path = tmp_path / "t"
    create(path, pa.schema([("ts", wide), ("id", pa.int64())]))
    stored: dict[str, Any] = {"ts": pa.array(values[10:], pa.int32()).cast(narrow), "id": range(10, 20)}
    commit(path, 1, add(path, pa.table(stored), row_group_size=5, write_statistics=statistics))
    wider: dict[str, Any] = {"ts": pa.array(values[:10], pa.int32()).cast(narrow).cast(wide), "id": range(10)}
    commit(path, 2, add(path, pa.table(wider), row_group_size=5, write_statistics=statistics))
    reading = query(path, drift="1 s", maxRowsPerTrigger="5")
    reading.run()
    assert [row["id"] for row in reading.rows] == list(range(20))


@pytest.mark.parametrize(
    ("text", "wide", "named"),
    [
        ("123.45", pa.decimal128(12, 5), r"decimal\(12,5\)"),
        ("2026-01-01", pa.timestamp("us"), "timestamp_ntz"),
    ],
)
def test_a_partition_value_from_before_its_type_was_widened(
    tmp_path: Path, text: str, wide: pa.DataType, named: str
) -> None:
    """delta-rs parses the text of every partition value by the present type of the column, and fails."""
    path = tmp_path / "t"
    create(path, pa.schema([("id", pa.int64())]))
    action = metadata(pa.schema([("id", pa.int64()), ("p", wide)]), {})
    action["metaData"]["partitionColumns"] = ["p"]
    file = add(path, pa.table({"id": [1]}))
    file["add"]["partitionValues"] = {"p": text}
    commit(path, 1, action, file)
    with pytest.raises(
        ConnectorError,
        match=f"partition value '{text}', which cannot be read as {named}: .*for example with UPDATE",
    ):
        query(path)
