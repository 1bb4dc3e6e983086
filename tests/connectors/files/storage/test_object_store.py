"""Files and a Delta table in an S3 store, which is a server of the tests. No JVM."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyarrow import fs

from flip27_stream.connectors.files import FileSource
from flip27_stream.errors import ConnectorError
from flip27_stream.testing import wait_until
from flip27_stream.testing.source_query import SourceQuery

BUCKET = "bucket"
SECRET = "hush-hush"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address at which the server listens: host and port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://{address}/", timeout=1):
                return True
        except OSError:
            return False

    with (tmp_path_factory.mktemp("store") / "log").open("wb") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_until(answers, "the store", 60)
            filesystem(address).create_dir(BUCKET)
            yield address
        finally:
            server.kill()
            server.wait()


def filesystem(address: str) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        access_key="me",
        secret_key=SECRET,
        region="us-east-1",
        scheme="http",
        endpoint_override=address,
        allow_bucket_creation=True,
    )


def numbers(values: Sequence[int]) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def ids(query: SourceQuery, expected: int) -> list[int]:
    return sorted(row["id"] for row in query.run(expected))


def test_files_are_found_read_and_followed(store: str) -> None:
    """Files are read with Arrow's names for the options of a store, also after a restart."""
    given = {"access_key": "me", "secret_key": SECRET, "region": "us-east-1", "scheme": "http"}
    options = {f"files.storage.option.{name}": value for name, value in given.items()}
    options["files.storage.option.endpoint_override"] = store
    source = FileSource({"path": f"s3://{BUCKET}/in", "source.monitor-interval": "10 ms", **options})
    pq.write_table(numbers(range(10)), f"{BUCKET}/in/first.parquet", filesystem=filesystem(store))
    with SourceQuery(source) as query:
        assert ids(query, 10) == [*range(10)]
        pq.write_table(numbers([10, 11]), f"{BUCKET}/in/deep/er.parquet", filesystem=filesystem(store))
        assert ids(query, 2) == [10, 11]
        offset = query.offset
    assert SECRET not in repr(offset)
    pq.write_table(numbers([12]), f"{BUCKET}/in/last.parquet", filesystem=filesystem(store))
    with SourceQuery(source, offset) as query:
        assert ids(query, 1) == [12]


def test_a_delta_table_is_found_read_and_followed(store: str) -> None:
    """A Delta table is read with delta-rs' names for the options of a store, also those that Arrow does not have."""
    storage = {
        "aws_access_key_id": "me",
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
        "aws_endpoint_url": f"http://{store}",
        "aws_allow_http": "true",
        "aws_conditional_put": "etag",
        "connect_timeout": "2s",
        "timeout": "1 minute",
        "max_retries": "3",
    }
    table = f"s3://{BUCKET}/table"
    write_deltalake(table, numbers(range(5)), storage_options=storage)
    options = {f"files.storage.option.{name}": value for name, value in storage.items()}
    source = FileSource(
        {"path": table, "files.format": "delta", "source.monitor-interval": "10 ms", **options}
    )
    with SourceQuery(source) as query:
        assert ids(query, 5) == [*range(5)]
        write_deltalake(table, numbers([5, 6]), storage_options=storage, mode="append")
        assert ids(query, 2) == [5, 6]


def read_one_batch(options: dict[str, str]) -> None:
    with SourceQuery(FileSource(options, schema=numbers([]).schema)) as query:
        query.wait_for_batch()


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_store_that_is_not_reached_is_named_without_its_secrets(format: str) -> None:
    """The error names the store and the options that give credentials, and shows no secret."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # the socket does not listen
        options = {
            "files.storage.option.secret_key": SECRET,
            "files.storage.option.access_key": "me",
            "files.storage.option.scheme": "http",
            "files.storage.option.region": "us-east-1",
            "files.storage.option.endpoint_override": f"127.0.0.1:{deaf.getsockname()[1]}",
            "files.storage.option.connect_timeout": "1",
        }
        given = {"path": f"s3://{BUCKET}/in", "files.format": format, **options}
        with pytest.raises(ConnectorError, match=f"s3://{BUCKET}|{BUCKET}/in") as refused:
            read_one_batch(given)
    assert SECRET not in str(refused.value)
    assert "give them as options files.storage.option.<name> (aws_region, aws_access_key_id, " in str(
        refused.value
    )
