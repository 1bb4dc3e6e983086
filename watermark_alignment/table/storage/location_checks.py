"""Checks of the file system at the location of a split-watermark table, before delta-rs opens the table there."""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from flip27_stream.errors import AlignmentError
from watermark_alignment.table.delta_rs_remedies import RENAME
from watermark_alignment.table_location import (
    TABLE_OPTION,
    catalog_name,
    for_delta_rs,
    normalised,
    shown,
    why_no_place,
)

_WITHOUT_LINKS: Final = (errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV)
_MOUNTS: Final = ("/dbfs", "/Volumes")
_MISSPELT_MOUNT: Final = re.compile(r"/(?!Volumes/)(?i:volumes?)(?=/)")
_DBFS_MOUNTS: Final = Path("/dbfs/mnt")
PROBE: Final = re.compile(r"\.flip27-probe-[0-9a-f]{16}(?:\.link)?")
"""The names of the files with which :func:`has_hard_links` tries hard links."""
_OLD_S: Final = 60
"""The age (s) from which on a probe is of a process that was killed: a living one removes it within milliseconds."""

_TOLD: set[str] = set()
"""The warnings about locations that this process has logged."""

log = logging.getLogger(__name__)


def local_folder(location: str) -> Path | None:
    """Returns the folder of a location on a file system of this machine, or ``None`` for an object store."""
    location = normalised(location)
    if location.startswith("file:/"):
        return Path("/" + unquote(location.removeprefix("file:").lstrip("/")))
    return None if "://" in location else Path(location)


def check_place(given: str) -> None:
    """Checks that a table can be at a location.

    No part of its path may be a file where a folder must be, and a path of Databricks must be mounted.

    Otherwise delta-rs would say that the path does not exist, or create a local folder with the name of the mount.

    Args:
        given: The location, as the user gave it.

    Raises:
        AlignmentError: No table can be there, a part of the path is a file, or the path is not mounted on this machine.
    """
    if (refusal := why_no_place(given)) is not None:
        raise AlignmentError(f"No split-watermark table can be at '{shown(given)}'. {refusal}")
    location = for_delta_rs(given)
    folder = local_folder(location)
    file = (
        next((p for p in (folder, *folder.parents) if os.path.isfile(p)), None)
        if folder is not None
        else None
    )
    if file is not None:
        raise AlignmentError(
            f"The split-watermark table at '{given}' cannot be opened: '{file}' is a file. Give the path of a "
            f"folder (option {TABLE_OPTION})."
        )
    _check_mount(location, given)


def _check_mount(location: str, given: str) -> None:
    """Checks that a path of Databricks is mounted.

    Raises:
        AlignmentError: The path is not mounted on this machine.
    """
    if location.startswith("/mnt/") and _DBFS_MOUNTS.is_dir():
        raise AlignmentError(
            f"Option '{TABLE_OPTION}' is '{given}', which Spark reads as 'dbfs:{location}', and other programs as "
            f"a folder on the driver's disk, which is deleted with the cluster. Write 'dbfs:{location}', or "
            f"'file:{location}' if you mean the driver's disk."
        )
    misspelt = _MISSPELT_MOUNT.match(location)
    if misspelt and not Path(misspelt[0]).is_dir():
        raise AlignmentError(
            f"Option '{TABLE_OPTION}' is '{given}', but this driver has no folder '{misspelt[0]}'. Volumes of "
            f"Databricks are under /Volumes: write '/Volumes{location.removeprefix(misspelt[0])}', or create the "
            "folder if you mean one."
        )
    for mount in _MOUNTS:
        if location.startswith(f"{mount}/") and not Path(mount).is_dir():
            raise AlignmentError(
                f"Option '{TABLE_OPTION}' is '{given}', but this driver has no {mount}: the file system of "
                "Databricks is not mounted here. Give the URI of cloud storage (s3://, abfss://, gs://), or run "
                "where it is mounted."
            )


def on_disk_of_driver(given: str) -> str | None:
    """Returns a warning if a table is on the disk of a driver of Databricks, where Spark takes the same path for DBFS.

    Args:
        given: The location, as the user gave it.
    """
    of_spark = given.startswith("/") and not given.startswith(("/dbfs/", "/Volumes/", "/Workspace/"))
    if not of_spark or not Path("/dbfs").is_dir():
        return None
    return (
        f"The split-watermark table at '{given}' (option {TABLE_OPTION}) is a folder on the driver's disk, which is "
        f"deleted with the cluster. Spark takes the same path for 'dbfs:{given}', for example in a checkpointLocation. "
        f"Write /Volumes/<catalog>/<schema>/<volume>/<folder> or 'dbfs:{given}', or 'file:{given}' if you mean the "
        "driver's disk."
    )


def check_is_location(text: str) -> None:
    """Checks that a text is not the name of a table in a catalog, which delta-rs does not know.

    Raises:
        AlignmentError: The text is such a name, and there is no folder with that name.
    """
    if catalog_name(text) is not None and not Path(text).exists():
        raise AlignmentError(
            f"'{text}' is the name of a table in a catalog, which only Spark can look up. Show the table with "
            "watermark_alignment.split_status(spark, name), or give the location that DESCRIBE DETAIL shows, if it can "
            "be read without the catalog."
        )


def has_hard_links(location: str, options: Mapping[str, str]) -> bool:
    """Returns whether delta-rs can commit safely at a location: it needs hard links for that.

    Files that are left of former trials are removed.

    Args:
        location: A path or URI. For an object store, or a folder that is not writable, the result is true.
        options: The storage options. If :data:`RENAME` is among them, nothing is tried and the result is true.
    """
    folder = local_folder(location)
    if folder is None or RENAME in {name.lower() for name in options}:
        return True
    folder = next((path for path in (folder, *folder.parents) if path.is_dir()), folder)
    probe = folder / f".flip27-probe-{secrets.token_hex(8)}"
    try:
        probe.touch()
        _remove_old_probes(folder, probe.stat().st_mtime)
        os.link(probe, probe.with_suffix(".link"))
    except OSError as error:
        return not probe.exists() or error.errno not in _WITHOUT_LINKS
    finally:
        for path in (probe, probe.with_suffix(".link")):
            with suppress(OSError):
                path.unlink()
    return True


def _remove_old_probes(folder: Path, now: float) -> None:
    """Removes probes of processes that were killed. The time ``now`` is by the clock of the file system."""
    # Another process may have removed one, or the folder cannot be listed.
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if PROBE.fullmatch(entry.name) and now - entry.stat().st_mtime > _OLD_S:
                os.unlink(entry)


def renames_instead(location: str) -> str:
    """Returns the warning for a table on a file system without hard links."""
    return (
        f"The file system of the split-watermark table at '{location}' has no hard links, which make commits to a "
        f"Delta table safe. Commits are made by renaming files instead (storage option {RENAME}), which is safe as "
        "long as one source writes to the table. For a group of several sources put the table where all can write at "
        "the same time: S3, ADLS or GCS by their URIs, or a local disk of the driver."
    )


def warn_once(text: str | None) -> None:
    """Logs a warning about a location, unless this process has logged it."""
    if text is not None and text not in _TOLD:
        _TOLD.add(text)
        log.warning("%s", text)
