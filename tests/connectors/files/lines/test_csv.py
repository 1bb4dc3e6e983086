"""CSV files, read with the option names of Spark's CSV source."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.files.formats.file_format import MalformedRecord
from flip27_stream.connectors.files.lines.line_options import ESCAPE, parse_csv_options
from flip27_stream.connectors.files.options.format_options import file_format
from flip27_stream.errors import OptionError, RecordFormatError
from tests.connectors.files.support.reading import INSTANT, LOCAL_FS, read_rows, units_of

NOON = datetime(2024, 2, 29, 12, tzinfo=timezone.utc)
HEADER = {"header": "true"}
IDS = pa.schema([("id", pa.int64())])


def _rows(path: Path, text: str, schema: pa.Schema, cuts: Sequence[int] = (), **options: str) -> list[Any]:
    path.write_text(text, newline="")
    return [tuple(row.values()) for row in read_rows(file_format("csv", options, schema), path, schema, cuts)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.csv"


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\\\0"), max_size=6)


@given(
    rows=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), TEXTS.filter(bool)), max_size=20),
    header=st.booleans(),
    cuts=st.lists(st.floats(0, 1), max_size=4),
)
def test_fi17_every_row_once_wherever_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str]], header: bool, cuts: list[float]
) -> None:
    """FI-17, I1: every row comes once wherever a file is cut, with and without a header. The header is no row."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([*[("id", "name")] * header, *rows])
    text = out.getvalue()
    where = sorted(int(cut * len(text.encode())) for cut in cuts)
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    assert _rows(path, text, schema, where, header=str(header)) == rows


def test_columns_by_name_with_a_header(path: Path) -> None:
    """Columns are found by the header in any case and order. Spark's own source would go by their order."""
    schema = pa.schema([("B", pa.string()), ("a", pa.int64())])
    assert _rows(path, "a,b,c\n1,x,9\n2,y,9\n", schema, header="true") == [("x", 1), ("y", 2)]
    with pytest.raises(RecordFormatError, match=r"Columns z are not among those of csv file .*: a, b, c"):
        _rows(path, "a,b,c\n1,x,9\n", pa.schema([("z", pa.string())]), header="true")


def test_a_column_that_a_file_lacks_is_null(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A column that a file lacks is null and warned of, wherever the file is cut, as in the other formats and in
    Spark. A NOT NULL column fails.
    """
    at = pa.field("lacking", INSTANT)
    schema = pa.schema([("a", pa.int64()), at, ("b", pa.string()), ("Lacking2", pa.int64())])
    rows = [(1, None, "x", None), (2, None, "y", None)]
    assert _rows(path, "b,a\nx,1\ny,2\n", schema, [5, 8], header="true") == rows
    assert "has no column lacking, Lacking2, which is null in its rows" in caplog.text
    units = units_of(file_format("csv", HEADER, schema), path, "lacking")
    assert units.all_known
    assert units.least_event_time is None
    with pytest.raises(
        RecordFormatError, match=r"Column 'lacking' is NOT NULL, but csv file .* does not have this column"
    ):
        _rows(path, "b,a\nx,1\n", schema.set(1, at.with_nullable(False)), header="true")


def test_columns_are_found_by_order_without_a_header(path: Path) -> None:
    schema = pa.schema([("first", pa.int64()), ("second", pa.string())])
    assert _rows(path, "1,x\n2,y\n", schema) == [(1, "x"), (2, "y")]
    with pytest.raises(RecordFormatError, match=r"line at byte 4 .*Expected 2 columns, got 3"):
        _rows(path, "1,x\n2,y,z\n", schema)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", pa.int8(), 7),
        ("1.5", pa.float64(), 1.5),
        ("true", pa.bool_(), True),
        ("x", pa.string(), "x"),
        *(('""', kind, None) for kind in (pa.int64(), pa.string(), INSTANT, pa.bool_())),
        ("2024-02-29", pa.date32(), date(2024, 2, 29)),
        ("2024-2-29", pa.date32(), date(2024, 2, 29)),
        ("2024-2-29 12", INSTANT, NOON),
        ("2024-02-29T12:00:00Z", INSTANT, NOON),
        ("2024-02-29 12:00:00", INSTANT, NOON),
        ("2024-02-29 12:00:00.0000001", INSTANT, NOON),
        ("2024-02-29", INSTANT, NOON.replace(hour=0)),
        ("2024-02-29 13:00:00+01:00", INSTANT, NOON),
        ("2024-02-29 12:00:00", pa.timestamp("us"), NOON.replace(tzinfo=None)),
        ("TRUE", pa.bool_(), True),
        ("False", pa.bool_(), False),
        *(("", kind, None) for kind in (pa.int64(), pa.string(), INSTANT, pa.bool_())),
    ],
)
def test_values_are_converted_to_the_type_of_the_column(
    path: Path, text: str, kind: pa.DataType, value: object
) -> None:
    assert _rows(path, f"{text},x\n", pa.schema([("c", kind), ("x", pa.string())])) == [(value, "x")]


@pytest.mark.parametrize(
    ("line", "options", "value"),
    [
        ("a;b", {"sep": ";"}, "a"),
        ("a\tb", {"delimiter": "\\t"}, "a"),
        ("'a,b',c", {"quote": "'"}, "a,b"),
        ('"a,c', {"quote": ""}, '"a'),
        ('"a ""b"", c",d', {}, 'a "b", c'),
        (r'"a \"b\", c",d', {}, 'a "b", c'),
        (r"C:\temp,d", {}, r"C:\temp"),
        (r"a\"b,c", {}, r"a\"b"),
        (r'"C:\temp \"a\"",b\c', {}, r'C:\temp "a"'),
        (r'"C:\\temp\\",b', {}, "C:\\temp\\"),
        (r'"a,\"b",c', {"escape": "\\"}, 'a,"b'),
        (r"'a, ^'b^'',c", {"quote": "'", "escape": "^"}, "a, 'b'"),
        (r'"a\b""",c', {"escape": ""}, 'a\\b"'),
        ("NULL,x", {"nullValue": "NULL"}, None),
        ('"NULL",x', {"nullValue": "NULL"}, None),
        (",x", {"nullValue": "NULL"}, None),
    ],
)
def test_options_change_how_a_line_is_divided(
    path: Path, line: str, options: dict[str, str], value: str | None
) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    assert _rows(path, f"{line}\n", schema, (), **options)[0][0] == value


def test_a_backslash_escapes_by_default_as_the_page_says() -> None:
    assert ESCAPE.default == parse_csv_options({}).escape == "\\"


def test_the_two_names_of_the_separator_may_not_differ() -> None:
    """Otherwise one of the two values would have no effect."""
    assert parse_csv_options({"sep": ";", "delimiter": ";"}).separator == ";"
    with pytest.raises(
        OptionError, match=r"'sep' and 'delimiter' are two names .* different values: ';', '\|'\."
    ):
        parse_csv_options({"sep": ";", "delimiter": "|"})


@pytest.mark.parametrize("multi_line", ["false", "true"])
@given(values=st.lists(st.text('a\\", \n', min_size=1, max_size=6), min_size=1, max_size=8))
def test_values_are_those_that_were_escaped(
    tmp_path_factory: pytest.TempPathFactory, multi_line: str, values: list[str]
) -> None:
    """A writer puts an escape character before each quote and each escape character, inside of quotes."""
    if multi_line == "false":
        values = [value.replace("\n", "") for value in values]
    escaped = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    schema = pa.schema([("n", pa.int64()), ("s", pa.string()), ("t", pa.string())])
    rows = _rows(
        tmp_path_factory.mktemp("csv") / "a.csv",
        "".join(f'{n},"{text}",b\\"\n' for n, text in enumerate(escaped)),
        schema,
        multiLine=multi_line,
    )
    assert rows == [(n, value or None, 'b\\"') for n, value in enumerate(values)]


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ('1,"a\n', []),
        ('1,"a', []),
        ('0,x"y\n1,"a\n2,b\n', [(0, 'x"y'), (2, "b")]),
        ('9,p"q\n1,"x\n\n', [(9, 'p"q')]),
        (r'1,"dir\"' + "\n2,x\n", [(2, "x")]),
        ('1,"x\n2,y"\n5,a\r6,b\n', [(2, 'y"')]),
        ('1,"' + 140_000 * "a" + "\n2,x\n", [(2, "x")]),
        ('1,x\u2028"y\n2,x\n', [(1, 'x\u2028"y'), (2, "x")]),
    ],
)
def test_a_value_in_open_quotes_is_malformed(path: Path, text: str, good: list[tuple[int, str]]) -> None:
    """It does not take in a line break or the next line, whatever lines are beside it."""
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    assert _rows(path, text, schema, mode="DROPMALFORMED") == good


def test_a_line_that_is_no_utf_8_is_dropped_by_itself(path: Path) -> None:
    path.write_bytes(b'1,a\n2,b\xff"c\n3,d\n')
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    rows = read_rows(file_format("csv", {"mode": "DROPMALFORMED"}, schema), path, schema, dropped=[])
    assert [row["id"] for row in rows] == [1, 3]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7.972", "7.97"),
        ("-7.975", "-7.98"),
        ("9999.994", "9999.99"),
        ("9999.995", None),
        ("19663", None),
        ('"1,000.5"', "1000.50"),
        ("1e3", "1000.00"),
        ("1e99999", None),
        ("x", None),
    ],
)
def test_decimals_are_rounded_and_limited_as_in_spark(path: Path, text: str, value: str | None) -> None:
    schema = pa.schema([("x", pa.int64()), ("d", pa.decimal128(6, 2))])
    rows = _rows(path, f"0,12.5\n1,{text}\n", schema, mode="DROPMALFORMED")
    assert [str(number) for _, number in rows] == ["12.50", *([] if value is None else [value])]


def test_a_quoted_line_break_is_a_value_only_with_multi_line(path: Path) -> None:
    """A line break ends a record. With ``multiLine`` it may be in a value, and then a file is read as one piece."""
    text = 'id,name\n1,"two\nlines"\n2,"x"\n'
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    with pytest.raises(RecordFormatError, match=r"line at byte 8 of the csv file"):
        _rows(path, text, schema, header="true")
    assert _rows(path, text, schema, [9, 15], header="true", multiLine="true") == [
        (1, "two\nlines"),
        (2, "x"),
    ]
    format = file_format("csv", {"multiLine": "true"})
    assert not format.splittable
    assert units_of(format, path).borders.tolist() == [0, len(text)]
    with pytest.raises(RecordFormatError, match=r"The csv file .* does not decode: .*x'"):
        _rows(path, 'id,name\nx,"two\nlines"\n', schema, header="true", multiLine="true")


def test_malformed_lines_are_dropped_and_logged(path: Path) -> None:
    path.write_text("id\n" + "".join(f"{i}\n" for i in range(100)) + "x\n" + "7\n")
    dropped: list[MalformedRecord] = []
    rows = read_rows(file_format("csv", {"mode": "DROPMALFORMED", **HEADER}), path, IDS, dropped=dropped)
    assert [row["id"] for row in rows] == [*range(100), 7]
    (malformed,) = dropped
    assert malformed.position == path.read_text().index("x")
    assert "line at byte" in malformed.message
    assert "'x'" in malformed.message


@pytest.mark.parametrize("text", ["", "\n", "id\n", "id", "\n\n"])
def test_empty_files_have_no_rows(path: Path, text: str) -> None:
    assert _rows(path, text, IDS, header="true") == []


def test_blank_lines_are_no_rows(path: Path) -> None:
    assert _rows(path, "\n\nid\n\n1\n\n  \n2\n", IDS, header="true") == [(1,), (2,)]


def test_the_byte_order_mark_is_not_part_of_a_value(path: Path) -> None:
    assert _rows(path, "\ufeffid\n1\n", IDS, [1, 4], header="true") == [(1,)]
    assert _rows(path, "\ufeff1\n2\n", IDS, [1, 4]) == [(1,), (2,)]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    with pa.CompressedOutputStream(str(path), "gzip") as out:
        out.write(b"x,id\n" + b"".join(b"x,%d\n" % i for i in range(999)))
    rows = read_rows(file_format("csv", HEADER), path, IDS, [10])
    assert [row["id"] for row in rows] == list(range(999))


def test_schema_is_inferred(path: Path) -> None:
    """The inferred schema is Spark's: columns are text unless ``inferSchema`` is set, and are
    numbered without a header.
    """
    path.write_text("id,at,f,t\n1,2024-02-29T12:00:00Z,1.5,12:30:00\n")
    texts = [(name, pa.string()) for name in ("id", "at", "f", "t")]
    assert file_format("csv", HEADER).schema(LOCAL_FS, str(path)) == pa.schema(texts)
    inferred = file_format("csv", {**HEADER, "inferSchema": "true"}).schema(LOCAL_FS, str(path))
    assert inferred == pa.schema(
        [("id", pa.int64()), ("at", INSTANT), ("f", pa.float64()), ("t", pa.string())]
    )
    assert file_format("csv", {}).schema(LOCAL_FS, str(path)).names == ["_c0", "_c1", "_c2", "_c3"]
    path.write_text("1,2\n")
    schema = pa.schema([("_c0", pa.string()), ("_c1", pa.string())])
    assert read_rows(file_format("csv", {}), path, schema) == [{"_c0": "1", "_c1": "2"}]


def test_integers_beyond_64_bits_are_inferred_as_decimals(path: Path) -> None:
    """Spark infers decimal(20,0). A double has fewer digits."""
    path.write_text(f"1,{2**60 + 1},1.5\n2,{2**64 - 1},{2**64 - 1}\n3,,2\n")
    schema = file_format("csv", {"inferSchema": "true"}).schema(LOCAL_FS, str(path))
    assert schema.types == [pa.int64(), pa.decimal128(20, 0), pa.float64()]
    rows = _rows(path, path.read_text(), schema)
    assert [row[1] for row in rows] == [2**60 + 1, 2**64 - 1, None]


def test_lines_whose_types_cannot_be_inferred_are_an_error(path: Path) -> None:
    path.write_text("1,2\n1,2,3\n")
    with pytest.raises(RecordFormatError, match=r"columns of csv file .* cannot be inferred .*\.schema"):
        file_format("csv", {"inferSchema": "true"}).schema(LOCAL_FS, str(path))


def test_event_times_of_a_column_are_found(path: Path) -> None:
    path.write_text("id,at\n1,2024-02-29 12:00:00\n2,\n3,1999-01-01\n")
    format = file_format("csv", HEADER, pa.schema([("id", pa.int64()), ("at", INSTANT)]))
    units = units_of(format, path, "at")
    assert (units.least_event_time, max(units.greatest.tolist())) == (
        915148800000,
        int(NOON.timestamp()) * 1000,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sep": "||"}, "'sep': '||'. Allowed: one ASCII character."),
        ({"sep": ""}, "'sep': ''. Allowed: one ASCII character."),
        ({"quote": "ab"}, "'quote': 'ab'. Allowed: one ASCII character, or an empty value."),
        ({"header": "yes"}, "'header': 'yes'. Allowed: true, false"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message.replace("|", r"\|")):
        file_format("csv", options)


def test_csv_has_no_nested_values() -> None:
    with pytest.raises(OptionError, match=r"Column 'c' of the schema is list.*CSV has no such values"):
        file_format("csv", {}, pa.schema([("c", pa.list_(pa.int64()))]))


@pytest.mark.parametrize("text", ["1,x\r2,y\r3,z\r", "1,x\r2,y\n3,z\n"])
def test_a_lone_carriage_return_is_no_line_end(path: Path, text: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    with pytest.raises(RecordFormatError, match=r"line at byte 0 .* carriage return without a line feed"):
        _rows(path, text, schema)
    assert _rows(path, '1,"x\ry"\n', schema) == [(1, "x\ry")]


@pytest.mark.parametrize("text", ['1,"x\ny\n2,z', '1,a\n2,"'])
def test_a_file_that_ends_in_quotes_is_damaged(path: Path, text: str) -> None:
    """A file that ends in a quoted value is refused. Arrow would take all text after the quote for the value."""
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    with pytest.raises(RecordFormatError, match="ends in the middle of a value in quotes"):
        _rows(path, text, schema, multiLine="true")
