"""Storage options of a Delta table: delta-rs reads its log with them, Arrow its files, under other names."""

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
"""What matters to delta-rs alone."""


def for_arrow(scheme: str, options: Mapping[str, str]) -> dict[str, str]:
    """Parameters of Arrow's file system for storage options of delta-rs.

    Those that begin with ``aws_`` and have no counterpart are left out, and so are those that matter to the log alone.
    Any other is left as it is: it may be Arrow's own name, which delta-rs does not heed; else Arrow refuses it.

    Args:
        scheme: of the table's URI.
        options: names without regard to case, as delta-rs has them.
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
    """The options with times as delta-rs has them, which takes no bare number of seconds.

    Raises:
        OptionError: a time is none.
    """
    return {
        name: f"{seconds(OPTION_PREFIX + name, value) * 1000:.0f}ms" if name.lower() in _CLIENT else value
        for name, value in options.items()
    }
