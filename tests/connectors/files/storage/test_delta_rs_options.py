"""Storage options of a Delta table, as delta-rs gets them and as Arrow gets them. The tests ask no store."""

from __future__ import annotations

import pytest
from pyarrow import fs

from flip27_stream.connectors.files.options.source_options import parse_file_options
from flip27_stream.connectors.files.storage.delta_rs_options import for_arrow, for_delta_rs
from flip27_stream.errors import OptionError

S3 = {"region": "us-east-1", "access_key_id": "me", "secret_access_key": "hush"}


@pytest.mark.parametrize(
    ("given", "arrow", "delta"),
    [
        ("2s", "2s", "2000ms"),
        ("2", "2", "2000ms"),
        ("0.5", "0.5", "500ms"),
        ("1min 30s", "1min 30s", "90000ms"),
        ("500 ms", "500 ms", "500ms"),
    ],
)
def test_delta_rs_and_arrow_have_the_same_time_limits(given: str, arrow: str, delta: str) -> None:
    options = {"connect_timeout": given, "timeout": given}
    assert for_arrow("s3", options) == {"connect_timeout": arrow, "request_timeout": arrow}
    assert for_delta_rs(options) == {"connect_timeout": delta, "timeout": delta}
    assert isinstance(filesystem("s3://bucket/table", S3 | options), fs.S3FileSystem)


@pytest.mark.parametrize("given", ["soon", "-1", "nan", "2 parsecs"])
@pytest.mark.parametrize("format_", ["delta", "parquet"])
def test_a_time_limit_that_is_no_duration_is_refused_by_name(given: str, format_: str) -> None:
    with pytest.raises(OptionError, match=rf"files\.storage\.option\.connect_timeout.*{given}"):
        filesystem("s3://bucket/table", {"connect_timeout": given}, format_)


@pytest.mark.parametrize(
    "options",
    [
        S3
        | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_Allow_HTTP": "TRUE", "aws_conditional_put": "etag"},
        {"endpoint": "http://127.0.0.1:1", "allow_http": "true", "skip_signature": "true", "region": "x"},
        S3 | {"token": "t", "virtual_hosted_style_request": "true", "copy_if_not_exists": "multipart"},
        S3 | {"endpoint_override": "127.0.0.1:1", "scheme": "http", "request_timeout": "2"},
    ],
)
def test_options_of_s3_have_the_names_of_delta_rs_or_of_arrow(options: dict[str, str]) -> None:
    assert isinstance(filesystem("s3://bucket/table", options), fs.S3FileSystem)


def test_options_of_azure_are_translated_for_arrow() -> None:
    options = {"azure_storage_account_key": "a2V5", "azure_storage_account_name": "account"}
    assert for_arrow("abfss", options) == {"account_key": "a2V5", "account_name": "account"}
    made = filesystem("abfss://container@account.dfs.core.windows.net/table", options)
    assert isinstance(made, fs.AzureFileSystem)


@pytest.mark.parametrize("name", ["allow_invalid_certificates", "proxy_ca_certificate", "user_agent"])
def test_options_without_a_counterpart_in_arrow_are_refused_by_name(name: str) -> None:
    with pytest.raises(OptionError, match=rf"'{name}'"):
        filesystem("s3://bucket/table", S3 | {name: "true"})


def filesystem(path: str, options: dict[str, str], format_: str = "delta") -> fs.FileSystem:
    """Returns the file system that reads the data files of a table."""
    named = {f"files.storage.option.{name}": value for name, value in options.items()}
    parsed = parse_file_options({"path": path, "files.format": format_, **named})
    if parsed.delta is not None:
        return parsed.delta.storage.filesystem()
    assert parsed.listing is not None
    return parsed.listing.storage.filesystem()
