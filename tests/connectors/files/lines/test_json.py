"""JSON lines have the values that Spark reads. Arrow parses them, and lines that it cannot parse
are read one by one.
"""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.files.formats.file_format import FileFormat, MalformedRecord
from flip27_stream.connectors.files.options.format_options import file_format
from flip27_stream.errors import OptionError, RecordFormatError
from tests.connectors.files.support.reading import INSTANT, LOCAL_FS, pieces_of, read_rows, units_of

JSON = file_format("json", {})
UTC = timezone.utc
NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)


def _file(path: Path, *texts: str) -> Path:
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def _value(tmp_path: Path, text: str, kind: pa.DataType, format: FileFormat = JSON) -> Any:
    path = _file(tmp_path / "a.json", f'{{"c": {text}}}')
    (row,) = read_rows(format, path, pa.schema([("c", kind)]))
    return row["c"]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", pa.int8(), 7),
        ("7", pa.float64(), 7.0),
        ("1e3", pa.float32(), 1000.0),
        ('"NaN"', pa.float64(), pytest.approx(float("nan"), nan_ok=True)),
        ("12.5", pa.decimal128(10, 3), Decimal("12.500")),
        ("1.005", pa.decimal128(5, 2), Decimal("1.01")),
        ('"1,234.5"', pa.decimal128(5, 1), Decimal("1234.5")),
        ("true", pa.bool_(), True),
        ('"ä"', pa.string(), "ä"),
        ("12.50", pa.string(), "12.50"),
        ('{"b": [1, true, null]}', pa.string(), '{"b":[1,true,null]}'),
        ('"2024-02-29"', pa.date32(), date(2024, 2, 29)),
        ('"2024-2-29"', pa.date32(), date(2024, 2, 29)),
        ('"2024-02-29T12:00:00Z"', INSTANT, NOON),
        ('"2024-02-29 12:00:00"', INSTANT, NOON),
        ('"2024-02-29T13:00:00+01:00"', INSTANT, NOON),
        ('"2024-02-29T12:00:00.123456789Z"', INSTANT, NOON.replace(microsecond=123456)),
        ('"2024-02-29"', INSTANT, NOON.replace(hour=0)),
        ("1709208000", INSTANT, NOON),
        ('"2024-02-29T12:00:00"', pa.timestamp("us"), NOON.replace(tzinfo=None)),
        ('"AQI="', pa.binary(), b"\x01\x02"),
        ("[1, null]", pa.list_(pa.int64()), [1, None]),
        ('{"b": "x", "d": 1}', pa.struct([("b", pa.string()), ("a", pa.int64())]), {"b": "x", "a": None}),
        ('{"k": 1}', pa.map_(pa.string(), pa.int64()), [("k", 1)]),
        ("null", INSTANT, None),
        ("null", pa.map_(pa.string(), pa.int64()), None),
    ],
)
def test_values_are_converted_to_the_type_of_the_column(
    tmp_path: Path, text: str, kind: pa.DataType, value: object
) -> None:
    assert _value(tmp_path, text, kind) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("300", pa.int8()),
        ("1.5", pa.int64()),
        ('"7"', pa.int64()),
        ('"x"', pa.float64()),
        ("1", pa.bool_()),
        ("123.456", pa.decimal128(4, 2)),
        ('"yesterday"', INSTANT),
        ("1.5", INSTANT),
        ('"yesterday"', pa.date32()),
        ('"2024-02-29T12:00:00Z"', pa.timestamp("us")),
        ("[1]", pa.struct([("a", pa.int64())])),
        ("{}", pa.list_(pa.int64())),
        ('"%%"', pa.binary()),
    ],
)
def test_values_that_do_not_fit_are_errors(tmp_path: Path, text: str, kind: pa.DataType) -> None:
    """A value that does not fit is an error with the file, position, field and value. It never
    becomes null in silence.
    """
    with pytest.raises(
        RecordFormatError, match=r"line at byte 0 of the json file .*a\.json .*: field c is .*, and not "
    ):
        _value(tmp_path, text, kind)


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.none() | st.integers(-(2**63), 2**63 - 1),
            "name": st.none() | st.text(),
            "tags": st.none() | st.lists(st.booleans() | st.none(), max_size=2),
        }
    ),
    max_size=20,
)
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.bool_()))])


@given(rows=ROWS, ascii_=st.booleans(), cuts=st.lists(st.floats(0, 1), max_size=4))
def test_fi17_every_row_once_wherever_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], ascii_: bool, cuts: list[float]
) -> None:
    """FI-17, I1: every row comes once, wherever a file is cut."""
    path = _file(
        tmp_path_factory.mktemp("json") / "a.json", *(json.dumps(row, ensure_ascii=ascii_) for row in rows)
    )
    size = path.stat().st_size
    assert read_rows(JSON, path, SCHEMA, sorted(int(cut * size) for cut in cuts)) == rows


def test_fields_are_pruned_and_missing_ones_null(tmp_path: Path) -> None:
    path = _file(tmp_path / "a.json", '{"a": 1, "b": {"deep": []}}', "", '  {"b": 2} ')
    assert read_rows(JSON, path, pa.schema([("a", pa.int64()), ("new", pa.string())])) == [
        {"a": 1, "new": None},
        {"a": None, "new": None},
    ]
    assert len(read_rows(JSON, path, pa.schema([("new", pa.string())]))) == 2
    with pytest.raises(RecordFormatError, match=r"Column 'a' is NOT NULL, but json file .* has a null in it"):
        read_rows(JSON, path, pa.schema([pa.field("a", pa.int64(), nullable=False)]))


BAD = ['{"a": 1', "[1]", "7", "null", '{"a": 1} {"a": 2} x', "{a: 1}", "nonsense"]


@pytest.mark.parametrize("at", [0, 321])
@pytest.mark.parametrize("bad", BAD)
def test_malformed_lines_fail_or_are_dropped(tmp_path: Path, bad: str, at: int) -> None:
    """A malformed line is an error with its position. DROPMALFORMED leaves the line out, and tells its position. A
    null in the first line once ended the process, by a fault of Arrow's parser.
    """
    lines = [json.dumps({"a": i}) for i in range(500)]
    lines[at] = bad
    position = sum(len(line) + 1 for line in lines[:at])
    path = _file(tmp_path / "a.json", *lines)
    schema = pa.schema([("a", pa.int64())])
    with pytest.raises(
        RecordFormatError, match=rf"line at byte {position} of the json .* mode to DROPMALFORMED"
    ):
        read_rows(JSON, path, schema)
    dropped: list[MalformedRecord] = []
    rows = read_rows(file_format("json", {"MODE": "dropMalformed"}), path, schema, dropped=dropped)
    assert [row["a"] for row in rows] == [i for i in range(500) if i != at]
    assert [malformed.position for malformed in dropped] == [position]


def test_columns_are_not_found_in_a_file_that_begins_with_null(tmp_path: Path) -> None:
    """A file that begins with null is refused when its columns are looked for: Arrow's parser
    would end the process.
    """
    path = _file(tmp_path / "a.json", "null", '{"a": 1}')
    with pytest.raises(RecordFormatError, match="a line is null"):
        JSON.schema(LOCAL_FS, str(path))


def test_objects_over_several_lines_are_refused(tmp_path: Path) -> None:
    """An object over several lines is refused. Arrow would take it unless a piece ends inside, and rows must
    not depend on pieces.
    """
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"a": 1, "b": 2}, indent=1))
    with pytest.raises(RecordFormatError, match=r"line at byte 0"):
        read_rows(JSON, path, pa.schema([("a", pa.int64())]))


def test_times_are_parsed_by_the_pattern_of_an_option(tmp_path: Path) -> None:
    format = file_format("json", {"timestampFormat": "dd/MM/yyyy HH:mm"})
    assert _value(tmp_path, '"29/02/2024 12:00"', INSTANT, format) == NOON
    quoted = file_format("json", {"timestampFormat": "yyyy-MM-dd HH 'o''clock'"})
    assert _value(tmp_path, '"2024-02-29 12 o\'clock"', INSTANT, quoted) == NOON
    with pytest.raises(
        RecordFormatError,
        match=r'is "2024-02-29", and not a time that matches pattern .dd/MM/yyyy HH:mm. of option .timestampFormat.',
    ):
        _value(tmp_path, '"2024-02-29"', INSTANT, format)


def test_schema_is_inferred(tmp_path: Path) -> None:
    """The inferred schema is Spark's: times stay text, and a column that is always null is text."""
    path = _file(
        tmp_path / "a.json",
        '{"n": 1, "f": 1.5, "at": "2024-02-29T12:00:00Z", "s": {"t": ["2024-02-29"]}, "x": null}',
    )
    assert JSON.schema(LOCAL_FS, str(path)) == pa.schema(
        [
            ("n", pa.int64()),
            ("f", pa.float64()),
            ("at", pa.string()),
            ("s", pa.struct([("t", pa.list_(pa.string()))])),
            ("x", pa.string()),
        ]
    )
    with pytest.raises(RecordFormatError, match=r"has no line from which to take the columns"):
        JSON.schema(LOCAL_FS, str(_file(path)))
    for lines in (["nonsense"], ['{"a": 1}', '{"a": "x"}']):
        with pytest.raises(RecordFormatError, match=r"columns of json file .* cannot be inferred .*\.schema"):
            JSON.schema(LOCAL_FS, str(_file(path, *lines)))


def test_integers_beyond_64_bits_are_inferred_as_decimals(tmp_path: Path) -> None:
    """Spark infers decimal(20,0). A double has fewer digits."""
    large = 2**64 - 1
    path = _file(
        tmp_path / "a.json",
        f'{{"n": 1, "s": {{"l": [{large}, null], "d": 0.5}}, "m": {large}}}',
        '{"m": 2.5}',
    )
    assert JSON.schema(LOCAL_FS, str(path)) == pa.schema(
        [
            ("n", pa.int64()),
            ("s", pa.struct([("l", pa.list_(pa.decimal128(20, 0))), ("d", pa.float64())])),
            ("m", pa.float64()),
        ]
    )


def test_event_times_are_found_for_each_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Event times are read from the column. A unit has the lines that begin in it."""
    monkeypatch.setattr("flip27_stream.connectors.files.lines.line_format._UNIT", 64)
    path = _file(
        tmp_path / "a.json", *(f'{{"x": "padding", "at": {at}}}' for at in (30, 10, 20, 90, -5, 70, 80))
    )
    format = file_format("json", {}, pa.schema([("at", pa.int64())]))
    units = units_of(format, path, "AT")
    assert units.all_known
    for least, greatest, start, end in zip(
        units.least.tolist(),
        units.greatest.tolist(),
        units.borders[:-1],
        units.borders[1:],
        strict=True,
    ):
        pieces = pieces_of(format, path, int(start), int(end), pa.schema([("at", pa.int64())]))
        rows = [at for batch, _ in pieces for at in batch.column(0).to_pylist() if at >= 0]
        assert (least, greatest) == (min(rows), max(rows))
    assert (units.least_event_time, max(units.greatest.tolist())) == (10, 90)
    assert units_of(format, path, "absent").least_event_time is None
    with pytest.raises(RecordFormatError, match=r"Column 'at' of json file .* is string; event time is"):
        units_of(file_format("json", {}, pa.schema([("at", pa.string())])), path, "at")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "PERMISSIVE"}, "'mode': 'PERMISSIVE'. Allowed: FAILFAST, DROPMALFORMED"),
        ({"multiLine": "true"}, "'multiLine'.*each line of a file must be one JSON object"),
        ({"encoding": "UTF-16"}, "'encoding': 'UTF-16'"),
        ({"timeZone": "Berlin"}, "'timeZone': 'Berlin'. Allowed: a name of the time zone database"),
        ({"timestampFormat": "EEE"}, "'timestampFormat': 'EEE'. Allowed letters, each once: yyyy"),
        (
            {"timestampFormat": "yyyy[ HH]"},
            "'timestampFormat': 'yyyy. HH.'.*optional parts are not supported",
        ),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        file_format("json", options)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(
        OptionError, match=r"'files.format': 'avro'. Allowed: parquet, orc, json, csv, text, delta"
    ):
        file_format("avro", {})


def test_text_that_is_not_utf_8_is_malformed(tmp_path: Path) -> None:
    """A line that is not UTF-8 is malformed, as in Spark's own source. Arrow's parser accepts any bytes."""
    path, schema = tmp_path / "a.json", pa.schema([("s", pa.string())])
    path.write_bytes(b'{"s": "x"}\n{"s": "\xff"}\n{"s": "y"}\n')
    with pytest.raises(RecordFormatError, match=r"line at byte 11 .* does not decode"):
        read_rows(file_format("json", {}, schema), path, schema)
    dropped: list[MalformedRecord] = []
    lenient = file_format("json", {"mode": "DROPMALFORMED"}, schema)
    assert read_rows(lenient, path, schema, dropped=dropped) == [{"s": "x"}, {"s": "y"}]
    assert [one.position for one in dropped] == [11]


@pytest.mark.parametrize(("name", "head"), [("json", '{"t": %s}'), ("csv", "%s")])
def test_a_time_with_a_zone_in_a_column_without_one_is_said(tmp_path: Path, name: str, head: str) -> None:
    """A column ``timestamp`` is ``timestamp_ntz`` by ``spark.sql.timestampType``: the error names the other type."""
    path, schema = tmp_path / f"a.{name}", pa.schema([("t", pa.timestamp("us"))])
    path.write_text(head % '"2026-01-31T12:00:00Z"' + "\n")
    with pytest.raises(RecordFormatError) as error:
        read_rows(file_format(name, {}, schema), path, schema)
    said = str(error.value)
    assert "2026-01-31T12:00:00Z" in said
    assert "not a time without a zone such as 2026-01-31T12:00:00, as type timestamp_ntz needs" in said
    assert "type timestamp_ltz if its times have zones). To skip such lines" in said
