"""A JSON document has the same values in a topic, in a file and at a JSON pointer, so that a hybrid source does not
change values where one source ends and the next begins.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flip27_stream.connectors.files.formats.file_format import MalformedRecord
from flip27_stream.connectors.files.options.format_options import file_format
from flip27_stream.connectors.kafka.values.value_json import JsonValueDecoder
from flip27_stream.event_time.json_pointer import JsonPointer
from tests.connectors.files.support.reading import read_table
from tests.decoding.support.json_cases import DOCUMENTS, TEXTS, document, values_of

REPEATED = (b'{"b":"x","b":2}', b'{"b":2,"b":"x"}')
"""Documents that are bad, although a JSON pointer finds the last field with the name."""
COLUMNS = {
    "money": pa.decimal128(5, 2),
    "day": pa.date32(),
    "at": pa.timestamp("us", tz="UTC"),
    "local": pa.timestamp("us"),
    "whole": pa.int32(),
    "double": pa.float64(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "wholes": pa.list_(pa.int32()),
    "pair": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    "counts": pa.map_(pa.string(), pa.int32()),
}


def plain(column: pa.Array) -> str:
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    return repr((column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist())


def is_utf_8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("name", COLUMNS)
def test_values_of_a_topic_are_those_of_a_file(tmp_path: Path, name: str) -> None:
    """A document that is bad in a topic is bad in a file, and good ones have the same values.

    Only documents in UTF-8 are compared, since a file must be UTF-8.
    """
    fields = pa.schema([(name, COLUMNS[name]), ("b", pa.int32())])
    texts = [b"{}", *(document(name, value) for value in values_of(name)), *DOCUMENTS]
    lines = [text for text in texts if text.strip() and is_utf_8(text)]
    path = tmp_path / "lines.json"
    path.write_bytes(b"".join(line + b"\n" for line in lines))

    values = JsonValueDecoder(fields).decode(pa.array(lines, pa.binary()))
    assert values.bad is not None
    format = file_format("json", {"mode": "DROPMALFORMED"})
    dropped: list[MalformedRecord] = []
    table = read_table(format, path, fields, dropped=dropped).combine_chunks()

    starts = [0, *itertools.accumulate(len(line) + 1 for line in lines)]
    assert [one.position for one in dropped] == [
        start for start, bad in zip(starts, values.bad.to_pylist(), strict=False) if bad
    ]
    good = pc.invert(values.bad)
    for value_column, file_column in zip(values.columns, table.columns, strict=True):
        assert plain(value_column.filter(good)) == plain(file_column.combine_chunks())


def test_a_pointer_takes_the_same_documents() -> None:
    """A JSON pointer finds an event time exactly in the documents that decode into columns.

    Two documents that repeat a name are left out.
    """
    values = pa.array(DOCUMENTS, pa.binary())
    columns = JsonValueDecoder(pa.schema([("b", pa.int64())])).decode(values)
    times = JsonPointer("/b").times(values)
    assert columns.bad is not None
    assert [
        text
        for text, time, number, bad in zip(
            DOCUMENTS, times.to_pylist(), columns.columns[0].to_pylist(), columns.bad.to_pylist(), strict=True
        )
        if time != (None if bad else number) and text not in REPEATED
    ] == []


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "each alone"])
def test_a_pointer_takes_the_same_times(together: bool) -> None:
    """A text at a JSON pointer is the event time that a ``timestamp`` column has, except times before 1970."""
    texts = [document("at", json.dumps(text)) for text in TEXTS["at"]]
    decoder = JsonValueDecoder(pa.schema([("at", COLUMNS["at"]), ("b", pa.int32())]))
    column = decoder.decode(pa.array(texts, pa.binary())).columns[0].view(pa.int64())
    expected = [None if us is None or us < 0 else us // 1000 for us in column.to_pylist()]

    parts = [texts] if together else [[text] for text in texts]
    times = [JsonPointer("/at").times(pa.array(part, pa.binary())).to_pylist() for part in parts]
    assert dict(zip(texts, itertools.chain(*times), strict=True)) == dict(zip(texts, expected, strict=True))
