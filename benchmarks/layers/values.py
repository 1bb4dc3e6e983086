"""The layers that decode values: JSON, Avro, times in text."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import datetime

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from benchmarks.layers.pair import SHARE, compared
from benchmarks.support.backlog import START_MS, json_values
from benchmarks.support.environment import Environment
from benchmarks.support.results import Result
from benchmarks.support.turns import Pairs, speeds
from flip27_stream.connectors.files.lines.line_blocks import starts_of_lines
from flip27_stream.connectors.kafka.values.avro_walk import RecordWalk
from flip27_stream.connectors.kafka.values.value_avro import AvroDecoder
from flip27_stream.decoding.datetime_text import INSTANT, instants
from flip27_stream.decoding.json_columns import JsonColumns
from flip27_stream.decoding.json_regular_lines import regular_columns

_FIELDS = pa.schema(
    [
        ("id", pa.int64()),
        ("user", pa.string()),
        ("page", pa.string()),
        ("country", pa.string()),
        ("cents", pa.int64()),
        ("share", pa.float64()),
    ]
)
_AVRO_NAMES = {pa.int64(): "long", pa.string(): "string", pa.float64(): "double"}
_AVRO = {
    "type": "record",
    "name": "event",
    "fields": [{"name": field.name, "type": _AVRO_NAMES[field.type]} for field in _FIELDS],
}


def measure(environment: Environment) -> Iterator[Result]:
    count = environment.sizes.records // SHARE
    values = json_values(count, 1)
    yield _json(environment, values)
    yield _lines(environment, values)
    yield from _avro(environment, [json.loads(value) for value in values.to_pylist()])
    yield _times(environment, count)


def _json(environment: Environment, values: pa.BinaryArray) -> Result:
    """Measures the decoding of JSON objects of six fields into columns."""
    decoder = JsonColumns(_FIELDS)

    def beside() -> int:
        return len(pa.array([json.loads(value) for value in values.to_pylist()], pa.struct(_FIELDS)))

    taken = compared(environment, len(values), beside, lambda: len(decoder.decode(values).columns[0]))
    return _result("JSON of six fields into columns, beside Python's json", values, taken)


def _lines(environment: Environment, values: pa.BinaryArray) -> Result:
    """Measures the decoding of lines of JSON that differ only in their values."""
    lines = b"\n".join(values.to_pylist())
    starts = starts_of_lines(lines)
    ends = np.append(starts[1:] - 1, len(lines)) - 1
    options = pj.ParseOptions(explicit_schema=_FIELDS, unexpected_field_behavior="ignore")
    whole = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)

    def beside() -> int:
        return int(pj.read_json(pa.BufferReader(lines), whole, options).num_rows)

    def ours() -> int:
        columns = regular_columns(lines, starts, ends, _FIELDS)
        assert columns is not None
        return len(columns[0])

    taken = compared(environment, len(values), beside, ours)
    return _result("lines of JSON that differ only in their values, beside Arrow's parser", values, taken)


def _avro(environment: Environment, records: list[dict[str, object]]) -> Iterator[Result]:
    """Measures the costs of the checks for damage, which fastavro does not have."""
    schema = fastavro.parse_schema(_AVRO)
    encoded = []
    for record in records:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, record)
        encoded.append(out.getvalue())
    values, decoder = pa.array(encoded, pa.binary()), AvroDecoder(_FIELDS, json.dumps(_AVRO), framed=False)

    def beside() -> int:
        read = [fastavro.schemaless_reader(io.BytesIO(v), schema, None) for v in values.to_pylist()]
        return len(pa.array(read, pa.struct(_FIELDS)))

    taken = compared(environment, len(values), beside, lambda: len(decoder.decode(values).columns[0]))
    yield _result("Avro of six fields into columns, with checks, beside fastavro alone", values, taken)

    walk = RecordWalk(schema)

    def checked() -> int:
        for value in encoded:
            walk.check(value, 0)
        return len(encoded)

    taken = compared(
        environment,
        len(encoded),
        lambda: sum(1 for v in encoded if fastavro.schemaless_reader(io.BytesIO(v), schema, None)),
        checked,
    )
    yield _result("the check of a doubtful Avro value, beside fastavro's reading", values, taken)


def _times(environment: Environment, count: int) -> Result:
    """Measures the decoding of times in text, with fractions of a second and an offset from UTC."""
    times = pa.array(range(START_MS, START_MS + count), pa.timestamp("ms"))
    text = pc.strftime(times, "%Y-%m-%dT%H:%M:%S+00:00")

    def beside() -> int:
        return len(pa.array([datetime.fromisoformat(each) for each in text.to_pylist()], INSTANT))

    taken = compared(environment, count, beside, lambda: len(instants(text)))
    return _result("times in text into instants, beside Python's fromisoformat", text, taken)


def _result(work: str, values: pa.Array, taken: Pairs) -> Result:
    return speeds(work, len(values), values.buffers()[2].size, taken)
