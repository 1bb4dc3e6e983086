"""A stand-in for Kinesis that answers from memory, in a process of its own.

It is not an emulator: it only serves reads.

The emulators take longer for an answer than a client for the call, so they hide what a client costs. This server
joins records that were encoded before. ``python -m benchmarks.support.canned_kinesis PORT SHARDS RECORDS BYTES``
serves one stream. Each shard has RECORDS records, one every millisecond, the last a minute ago.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from flip27_stream.testing import wait_until
from flip27_stream.testing.free_ports import free_port

_FIRST_NUMBER = 49_680_471_244_249_458_371_155_622_406_147_687_822_139_638_402_777_000_002
_SHARD_STEP = 10**20
_KEYS = 2**128
_MOST_RECORDS = 10_000
_MOST_BYTES = 10 << 20
"""The greatest size (bytes) of an answer, which is that of the service."""
_READY_S = 30.0


class CannedStream:
    """The answers of the service for one stream."""

    def __init__(self, shards: int, records: int, size: int) -> None:
        self._shards = shards
        self._records = records
        self._page = max(min(_MOST_RECORDS, _MOST_BYTES // (size + 10)), 1)
        data = base64.b64encode(b"x" * size).decode()
        self._first_ms = time.time_ns() // 1_000_000 - 60_000 - records
        self._heads = [
            json.dumps(
                {
                    "ApproximateArrivalTimestamp": (self._first_ms + i) / 1000,
                    "Data": data,
                    "PartitionKey": f"key-{i % 100}",
                    "SequenceNumber": "",
                },
                separators=(",", ":"),
            )[:-2].encode()
            for i in range(records)
        ]

    def answer(self, operation: str, asked: dict[str, Any]) -> bytes:
        """Returns the body of an answer."""
        if operation == "GetRecords":
            return self._get_records(asked)
        if operation == "GetShardIterator":
            return json.dumps({"ShardIterator": self._iterator(asked)}).encode()
        if operation == "ListShards":
            return json.dumps(self._list_shards(asked)).encode()
        if operation == "DescribeStreamSummary":
            arn = f"arn:aws:kinesis:us-east-1:000000000000:stream/{asked['StreamName']}"
            summary = {"StreamARN": arn, "StreamName": asked["StreamName"], "StreamCreationTimestamp": 1.0}
            return json.dumps({"StreamDescriptionSummary": summary}).encode()
        raise ValueError(f"{operation} is not served")

    def _list_shards(self, asked: dict[str, Any]) -> dict[str, Any]:
        first = int(asked.get("NextToken", 0))
        last = min(first + asked.get("MaxResults", 1000), self._shards)
        width = _KEYS // self._shards
        listed = [
            {
                "ShardId": f"shardId-{i:012d}",
                "HashKeyRange": {
                    "StartingHashKey": str(i * width),
                    "EndingHashKey": str((i + 1) * width - 1),
                },
                "SequenceNumberRange": {"StartingSequenceNumber": str(self._number(i, 0))},
            }
            for i in range(first, last)
        ]
        return {"Shards": listed, **({"NextToken": str(last)} if last < self._shards else {})}

    def _iterator(self, asked: dict[str, Any]) -> str:
        shard, kind = int(asked["ShardId"].rpartition("-")[2]), asked["ShardIteratorType"]
        if kind == "TRIM_HORIZON":
            index = 0
        elif kind == "AT_TIMESTAMP":
            index = min(max(round(asked["Timestamp"] * 1000) - self._first_ms, 0), self._records)
        else:
            index = int(asked["StartingSequenceNumber"]) - self._number(shard, 0)
            index += kind == "AFTER_SEQUENCE_NUMBER"
        return f"{shard}:{index}"

    def _get_records(self, asked: dict[str, Any]) -> bytes:
        shard, index = map(int, asked["ShardIterator"].split(":"))
        last = min(index + min(asked.get("Limit", self._page), self._page), self._records)
        number = self._number(shard, index)
        parts = [b'{"Records":[']
        for i, head in enumerate(self._heads[index:last]):
            parts += (head, b'%d"},' % (number + i))
        if last > index:
            parts[-1] = parts[-1][:-1]
        parts.append(
            b'],"NextShardIterator":"%d:%d","MillisBehindLatest":%d}' % (shard, last, self._records - last)
        )
        return b"".join(parts)  # one copy of the data, since the answers must cost little beside the client

    @staticmethod
    def _number(shard: int, index: int) -> int:
        return _FIRST_NUMBER + shard * _SHARD_STEP + index


async def _serve(port: int, stream: CannedStream) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:])
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if operation := headers.get("x-amz-target", "").rpartition(".")[2]:
                    answer = stream.answer(operation, json.loads(body))
                else:
                    answer = json.dumps({"cpu_s": time.process_time()}).encode()
                kind = "application/x-amz-json-1.1"
                head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(answer)}\r\n\r\n"
                writer.write(head.encode())
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    await server.serve_forever()


class CannedKinesis:
    """The address of a running stand-in."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.endpoint = f"http://{self.address}"

    @property
    def options(self) -> dict[str, str]:
        """The options with which ``flip27_kinesis`` connects to the stand-in."""
        return {"endpoint": self.endpoint, "region": "us-east-1", "awsAccessKey": "x", "awsSecretKey": "x"}

    @cached_property
    def client(self) -> Any:
        """A boto3 client of the stand-in."""
        import boto3

        return boto3.client(
            "kinesis",
            region_name="us-east-1",
            endpoint_url=self.endpoint,
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )

    @property
    def cpu_s(self) -> float:
        """The CPU time (s) that the stand-in has used."""
        with urllib.request.urlopen(self.endpoint, timeout=_READY_S) as answer:
            return float(json.load(answer)["cpu_s"])


@contextmanager
def canned_kinesis(shards: int, records: int, size: int) -> Iterator[CannedKinesis]:
    """Runs the stand-in with the given number and size (bytes) of records in each shard."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "benchmarks.support.canned_kinesis",
        *map(str, (port, shards, records, size)),
    ]
    process = subprocess.Popen(command)
    try:
        wait_until(lambda: _is_ready(process, port), "the stand-in to answer", _READY_S)
        yield CannedKinesis(port)
    finally:
        process.kill()
        process.wait()


def _is_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    if process.poll() is not None:
        raise RuntimeError("The stand-in for Kinesis did not start.")
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), CannedStream(*map(int, sys.argv[2:5]))))
