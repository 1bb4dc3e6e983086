"""Lines of files: every line comes once wherever a file is cut; encodings, compression, and the text format."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.files.lines import line_blocks, line_format
from flip27_stream.connectors.files.lines.line_blocks import line_start, starts_of_lines, whole_lines
from flip27_stream.connectors.files.lines.text import TextFormat
from flip27_stream.errors import CorruptRecordError, OptionError, RecordFormatError
from tests.connectors.files.support.reading import pieces_of, read_rows, units_of

TEXT = TextFormat()
VALUE = pa.schema([("value", pa.string())])
CONTENT = st.lists(st.sampled_from(["", "a", "bc", "ä", "\r", "long " * 9]), max_size=12)


def _read(path: Path, cuts: list[int] | None = None) -> list[str]:
    return [row["value"] for row in read_rows(TEXT, path, VALUE, cuts or [])]


@given(
    texts=CONTENT,
    break_=st.sampled_from(["\n", "\r\n"]),
    ended=st.booleans(),
    cuts=st.lists(st.floats(0, 1), max_size=5),
    block=st.integers(1, 40),
)
def test_fi17_every_line_once_wherever_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str],
    break_: str,
    ended: bool,
    cuts: list[float],
    block: int,
) -> None:
    """FI-17, I1: a piece has the lines that begin in it, for any pieces and any size of the blocks
    that are read at once.
    """
    texts = [text.replace("\r", "r") for text in texts]
    data = break_.join(texts).encode() + (break_.encode() if ended and texts else b"")
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(data)
    expected = texts if ended or not texts or texts[-1] else texts[:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "BLOCK", block)
        patch.setattr(line_blocks, "_SEARCH", 7)
        assert _read(path, sorted(int(cut * len(data)) for cut in cuts)) == expected


@pytest.mark.parametrize(
    ("position", "start"), [(-1, 0), (0, 0), (1, 3), (2, 3), (3, 3), (4, 4), (5, 7), (7, 7), (8, 7), (99, 7)]
)
def test_a_position_inside_a_line_means_the_next_line(position: int, start: int) -> None:
    assert line_start(pa.BufferReader(b"ab\n\ncd\n"), position) == start


def test_positions_are_byte_offsets_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("ä\nb\r\n\nc".encode())
    pieces = pieces_of(TEXT, path, 0, 8, VALUE)
    rows = [row for batch, at in pieces for row in zip(batch.column(0).to_pylist(), at, strict=True)]
    assert rows == [("ä", 0), ("b", 3), ("", 6), ("c", 7)]


def test_a_piece_reads_only_the_bytes_of_its_lines(tmp_path: Path) -> None:
    """A piece reads only its own lines: damage behind them is not seen."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n" * 10 + b"\xff\xfe\n" * 10)
    assert [positions for _, positions in pieces_of(TEXT, path, 7, 21, VALUE)] == [[10, 15, 20]]


def test_the_byte_order_mark_is_not_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfa\nb\n")
    assert _read(path, [1, 3]) == ["a", "b"]


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    """A line that is not UTF-8 is an error with its position. A binary column takes its bytes."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\nthr\xffe\nfour\n")
    with pytest.raises(
        RecordFormatError, match=r"line at byte 8 of the text file .*a\.txt does not decode.*value binary"
    ):
        _read(path)
    rows = read_rows(TEXT, path, pa.schema([("value", pa.binary())]))
    assert rows[2] == {"value": b"thr\xffe"}


@pytest.mark.parametrize("schema", [pa.schema([("line", pa.string())]), pa.schema([("value", pa.int64())])])
def test_a_text_file_has_one_column(schema: pa.Schema) -> None:
    with pytest.raises(OptionError, match="A text file has one column, 'value'"):
        TextFormat(schema)


@pytest.mark.parametrize("codec", ["gzip", "bz2", "zstd"])
def test_compressed_files_belong_to_their_first_byte(tmp_path: Path, codec: str) -> None:
    """FI-08: a compressed file cannot be read from the middle. The piece with its first byte has all
    lines, wherever it is cut.
    """
    texts = [f"line {i}" for i in range(5000)]
    extension = {"gzip": "gz", "bz2": "bz2", "zstd": "zst"}[codec]
    path = tmp_path / f"a.txt.{extension}"
    with pa.CompressedOutputStream(str(path), codec) as out:
        out.write("\n".join(texts).encode())
    size = path.stat().st_size
    assert units_of(TEXT, path).borders.tolist() == [0, size]
    assert not units_of(TEXT, path).divisible
    assert _read(path, [1, size // 2]) == texts
    assert pieces_of(TEXT, path, 1, size, VALUE) == []


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"line\n" * 10_000)[:-20])
    with pytest.raises(CorruptRecordError, match=r"The text file .*a\.txt\.gz does not decode"):
        _read(path)


def test_an_unknown_codec_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.snappy"
    path.write_bytes(b"x")
    with pytest.raises(RecordFormatError, match=r"compressed with a method that is not supported.*\.gz"):
        units_of(TEXT, path)


def test_a_line_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_blocks, "BLOCK", 10)
    monkeypatch.setattr(line_blocks, "LONGEST_LINE", 100)
    read = pa.BufferReader(b"ok\n" + b"x" * 500).read
    with pytest.raises(RecordFormatError, match="Line at byte 3 of file a is longer than 100 bytes"):
        list(whole_lines(read, 0, "a"))


def test_units_are_cut_at_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x\n" * (3 << 19))
    units = units_of(TEXT, path)
    assert units.borders.tolist() == [0, 1 << 20, 2 << 20, 3 << 20]
    assert units.divisible
    assert units.rows is None
    monkeypatch.setattr(line_format, "_MOST_UNITS", 1)
    assert len(units_of(TEXT, path)) == 1
    path.write_bytes(b"")
    assert (len(units_of(TEXT, path)), units_of(TEXT, path).end) == (0, 0)


@given(st.binary(max_size=30).map(lambda data: data.replace(b"\x07", b"\n")))
def test_starts_of_lines_are_found_in_bytes(data: bytes) -> None:
    parts = data.split(b"\n")
    ends = list(itertools.accumulate(len(part) + 1 for part in parts))
    expected = [0, *ends[:-1]]
    if expected[-1] == len(data):
        expected.pop()
    assert np.array_equal(starts_of_lines(data), expected)
