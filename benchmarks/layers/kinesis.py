"""The layers of Kinesis: answers of GetRecords, aggregated records."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from botocore.parsers import create_parser
from botocore.session import get_session
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from benchmarks.layers.pair import SHARE, compared
from benchmarks.support.backlog import START_MS, word_values
from benchmarks.support.environment import Environment
from benchmarks.support.results import Result
from benchmarks.support.turns import speeds
from flip27_stream.connectors.kinesis.client.record_pages import parsed
from flip27_stream.connectors.kinesis.records.aggregated import MAGIC, hash_key, user_records

_PAGE_BYTES = 1_000_000
_DIGEST = 16
_USER_BYTES = 100
_TOGETHER = 100
"""The number of user records in an aggregated record."""

_OPTIONAL, _REQUIRED, _REPEATED = 1, 2, 3
_UINT64, _STRING, _BYTES, _MESSAGE = 4, 9, 12, 11


def measure(environment: Environment) -> Iterator[Result]:
    for size in (200, 5000):
        yield _pages(environment, size)
    yield _aggregated(environment)


def _pages(environment: Environment, value_bytes: int) -> Result:
    """Measures the parsing of answers of GetRecords."""
    count = min(environment.sizes.records, 10 * _PAGE_BYTES) // value_bytes
    values = word_values(count, value_bytes, 1)
    body = json.dumps(
        {
            "Records": [
                {
                    "SequenceNumber": str(49 * 10**54 + number),
                    "ApproximateArrivalTimestamp": START_MS / 1000 + number,
                    "Data": base64.b64encode(value).decode(),
                    "PartitionKey": f"key-{number}",
                }
                for number, value in enumerate(values.to_pylist())
            ],
            "NextShardIterator": "next",
            "MillisBehindLatest": 0,
        },
        separators=(",", ":"),
    ).encode()
    model = get_session().get_service_model("kinesis")
    shape, parser = model.operation_model("GetRecords").output_shape, create_parser("json")
    answer = {"status_code": 200, "headers": {}, "body": body}
    taken = compared(
        environment,
        count,
        lambda: len(parser.parse(answer, shape)["Records"]),
        lambda: len(parsed(body)["Records"]),
    )
    return speeds(f"GetRecords, records of {value_bytes:,} B, beside botocore", count, values.nbytes, taken)


def _aggregated(environment: Environment) -> Result:
    """Measures the division of aggregated records, by the steps of aws-kinesis-agg: digest, protobuf, hash keys."""
    message = _message_class()
    values = word_values(environment.sizes.records // SHARE, _USER_BYTES, 1).to_pylist()
    packed = []
    for start in range(0, len(values), _TOGETHER):
        built = message()
        for number, value in enumerate(values[start : start + _TOGETHER]):
            built.partition_key_table.append(f"key-{start + number}")
            built.records.add(partition_key_index=number, data=value)
        body = built.SerializeToString()
        packed.append(MAGIC + body + hashlib.md5(body, usedforsecurity=False).digest())
    last = 2**128 - 1

    def beside() -> int:
        found = []
        for data in packed:
            body = data[len(MAGIC) : -_DIGEST]
            if hashlib.md5(body, usedforsecurity=False).digest() == data[-_DIGEST:]:
                read = message.FromString(body)
                keys = read.partition_key_table
                found += [
                    (keys[each.partition_key_index], each.data, number)
                    for number, each in enumerate(read.records)
                    if 0 <= hash_key(keys[each.partition_key_index]) <= last
                ]
        return len(found)

    taken = compared(
        environment,
        len(values),
        beside,
        lambda: sum(len(user_records(data, 0, last) or ()) for data in packed),
    )
    work = f"aggregated records of {_TOGETHER} user records, beside protobuf"
    return speeds(work, len(values), _USER_BYTES * len(values), taken)


def _message_class() -> Any:
    """Returns the class of AggregatedRecord, the message of aggregation-format.md."""
    file = descriptor_pb2.FileDescriptorProto(name="aggregated.proto", package="benchmark")
    record = file.message_type.add(name="Record")
    record.field.add(name="partition_key_index", number=1, label=_REQUIRED, type=_UINT64)
    record.field.add(name="explicit_hash_key_index", number=2, label=_OPTIONAL, type=_UINT64)
    record.field.add(name="data", number=3, label=_REQUIRED, type=_BYTES)
    whole = file.message_type.add(name="AggregatedRecord")
    whole.field.add(name="partition_key_table", number=1, label=_REPEATED, type=_STRING)
    whole.field.add(name="explicit_hash_key_table", number=2, label=_REPEATED, type=_STRING)
    whole.field.add(name="records", number=3, label=_REPEATED, type=_MESSAGE, type_name=".benchmark.Record")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("benchmark.AggregatedRecord"))
