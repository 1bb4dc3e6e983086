"""The storage options of a Delta table. delta-rs reads the log with them and Arrow the files, under different names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flip27_stream.connectors.files.storage.store_parameters import OPTION_PREFIX, seconds

_CLIENT: Final = {"connect_timeout": "connect_timeout", "timeout": "request_timeout"}
_S3: Final = {
    "access_key_id": "access_key",
    "secret_access_key": "secret_key",
    "session_token": "session_token",
    "token": "session_token",
    "region": "region",
    "default_region": "region",
    "endpoint": "endpoint_override",
    "endpoint_url": "endpoint_override",
    "virtual_hosted_style_request": "force_virtual_addressing",
    "skip_signature": "anonymous",
    "allow_http": "allow_http",
    "proxy_url": "proxy_options",
    **_CLIENT,
}
_GCS: Final = {"google_skip_signature": "anonymous", "skip_signature": "anonymous"}
_AZURE: Final = {
    prefix + name: parameter
    for parameter, names in {
        "account_name": ("storage_account_name", "account_name"),
        "account_key": ("storage_account_key", "account_key", "storage_access_key", "access_key"),
        "sas_token": ("storage_sas_token", "storage_sas_key", "sas_token", "sas_key"),
        "client_id": ("storage_client_id", "client_id"),
        "client_secret": ("storage_client_secret", "client_secret"),
        "tenant_id": ("storage_tenant_id", "tenant_id", "authority_id"),
    }.items()
    for name in names
    for prefix in ("azure_", "")
}
_OF_THE_LOG: Final = (
    "conditional_put",
    "copy_if_not_exists",
    "allow_unsafe_rename",
    "max_retries",
    "retry_timeout",
)
"""Options that only delta-rs has."""


def for_arrow(scheme: str, options: Mapping[str, str]) -> dict[str, str]:
    """Returns the parameters of Arrow's file system for storage options of delta-rs.

    Options that begin with ``aws_`` and have no counterpart, and options that matter only for the log, are left out.
    Any other option is kept, because it may be a parameter of Arrow that delta-rs ignores. If Arrow does not know it
    either, Arrow raises an error.

    Args:
        scheme: The scheme of the table's URI.
        options: The storage options of delta-rs, with names in any case.
    """
    same = _GCS if scheme.startswith("g") else _AZURE if scheme.startswith("abfs") else _S3
    found: dict[str, str] = {}
    for name, value in options.items():
        short = name.lower().removeprefix("aws_")
        if short in same:
            found[same[short]] = value
        elif name.lower() == short and short not in _OF_THE_LOG:
            found[name] = value
    return found


def for_delta_rs(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options with times in the form of delta-rs, which does not accept a number of seconds without a unit.

    Raises:
        OptionError: A value is not a time.
    """
    return {
        name: f"{seconds(OPTION_PREFIX + name, value) * 1000:.0f}ms" if name.lower() in _CLIENT else value
        for name, value in options.items()
    }
