"""Remedies for errors that delta-rs raises about a split-watermark table."""

from __future__ import annotations

import errno
import re
from typing import Final

from watermark_alignment.table_location import TABLE_OPTION

RENAME: Final = "allow_unsafe_rename"
"""The storage option that makes delta-rs commit by renaming files, for file systems without hard links."""

_GRANTS: Final = (
    "Permissions granted in a catalog do not reach it: the process that opens the table needs credentials of its own, "
    f"in its environment or as options. A query has {TABLE_OPTION}.option.<name>"
)
_OTHERS: Final = (
    "python -m watermark_alignment has --storage-option, StatusListener and plot have storage_options"
)
_CREDENTIALS: Final = {
    (
        "s3://",
        "s3a://",
    ): "aws_access_key_id, aws_secret_access_key, aws_session_token, aws_region, aws_endpoint",
    ("abfss://", "abfs://", "az://", "azure://", "adl://"): (
        "azure_storage_account_name and azure_storage_account_key, or azure_client_id, azure_client_secret and "
        "azure_tenant_id, or azure_storage_sas_key"
    ),
    ("gs://",): "google_service_account (a path), google_service_account_key",
}
_HADOOP: Final = ("hdfs://", "viewfs://")
_NAME_NODE: Final = (
    "delta-rs needs the host and the port of the NameNode, as in hdfs://namenode:8020/folder, and must reach it. For a "
    "URI without a host or a port, or of a name service, it needs core-site.xml and hdfs-site.xml in the folder that "
    f"HADOOP_CONF_DIR names in the environment of the driver (option {TABLE_OPTION})."
)
_UNKNOWN_SCHEME: Final = "Unknown scheme"
_SCHEMES: Final = (
    "delta-rs, which writes the table, does not know URIs of this kind. Give s3://bucket/folder, "
    "abfss://container@account.dfs.core.windows.net/folder (for wasbs:// too), gs://bucket/folder, or an absolute path "
    f"(option {TABLE_OPTION})."
)
_DAMAGE: Final = re.compile(
    r"Json error|contiguous commit files|No table metadata or protocol|Invalid Checkpoint|less than footer"
    r"|Corrupt footer|Failed to fetch metadata for file .*(?:not found|range was invalid)"
    r"|Failed to open local file .*No such file"
)
_RENEW: Final = (
    "A file of the table is damaged or missing. Restore the folder from a copy; or, if it has split watermarks only, "
    "delete it: queries create it again and go on from their checkpoints. Only the status and the pictures of earlier "
    "batches are lost."
)
_UNKNOWN_FEATURES: Final = re.compile(
    r"Feature '\w+' is not supported|Unsupported table features|Unsupported minimum \w+ version|Invalid protocol action"
)
_ANOTHER_WRITER: Final = (
    "Another program has given the table features that delta-rs, which writes it, does not know. Give a path where no "
    f"table is yet: queries create it there and go on from their checkpoints ({TABLE_OPTION})."
)
_OS_ERROR: Final = re.compile(r"(?:os error |Os \{ code: |\[errno )(\d+)", re.IGNORECASE)
_NOT_HERE: Final = {
    errno.EACCES: (
        "The user of this process has no permission to write to this path. Grant that permission, or give another path "
        f"(option {TABLE_OPTION})."
    ),
    errno.ENOTDIR: (
        f"A part of the path is a file and not a folder. Give another path (option {TABLE_OPTION})."
    ),
    errno.ENOSPC: "The disk is full. Free some space.",
    errno.EDQUOT: "The quota of disk space is used up. Free some space, or raise the quota.",
    errno.EMFILE: "This process has reached its limit of open files. Raise that limit (ulimit -n).",
    errno.EROFS: f"The file system is read-only. Give another path (option {TABLE_OPTION}).",
}


def is_unknown_scheme(cause: str) -> bool:
    """Returns whether a message of delta-rs is its error for a URI scheme without a store."""
    return cause.startswith(_UNKNOWN_SCHEME)


def remedy(location: str, cause: str) -> str:
    """Returns the remedy for an error of delta-rs, in sentences for the error message.

    Args:
        location: The location of the table, as delta-rs takes it.
        cause: The message of delta-rs.
    """
    if is_unknown_scheme(cause):
        return _SCHEMES
    if _UNKNOWN_FEATURES.search(cause):
        return _ANOTHER_WRITER
    if _DAMAGE.search(cause):
        return _RENEW
    if "://" in location and not location.lower().startswith("file://"):
        return _of_store(location.lower())
    if "os error 38" in cause or RENAME in cause:
        return f"The file system has no hard links. Set {TABLE_OPTION}.option.{RENAME} to true, or give another path."
    code = _OS_ERROR.search(cause)
    known = _NOT_HERE.get(int(code[1])) if code is not None else None
    return known or f"Check that the driver can read and write at this location (option {TABLE_OPTION})."


def _of_store(location: str) -> str:
    """Returns the remedy for a store that was not reached, or refused a request."""
    if location.startswith(_HADOOP):
        return _NAME_NODE
    found = (names for schemes, names in _CREDENTIALS.items() if location.startswith(schemes))
    names = next(found, "those that delta-rs has for this store")
    return f"The store was not reached, or refused the request. {_GRANTS} (of {names}), {_OTHERS}."
