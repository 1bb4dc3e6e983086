"""Fetches the Kinesis emulators that tests need, by npm.

``python -m flip27_stream.testing.kinesis`` fetches them. They are stored in ``$FLIP27_SERVERS``, else
in ``.servers`` of the checkout, else in ``~/.cache/flip27-stream/servers``.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from flip27_stream.errors import ConnectorError
from flip27_stream.testing.server import servers_directory

PACKAGES = ("kinesis-local@0.6.2", "kinesalite@3.3.3")
"""An emulator with all operations of resharding, and a faster, older one. They run no scripts at installation."""

_TIME_LIMIT_S = 300.0


def node() -> str | None:
    """Returns the path of the program ``node``, or ``None`` if it is not installed."""
    return shutil.which("node")


def fetch(directory: Path | None = None) -> Path:
    """Returns the folder ``node_modules`` with the emulators, which are fetched if they are missing.

    Raises:
        ConnectorError: Npm is not installed, or a package is not available. The message ends with npm's last lines.
    """
    target = _target(directory)
    root = target.parent
    if not target.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with (root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():
                _install(root / ".fetching", target)
    return target / "node_modules"


def is_fetched(directory: Path | None = None) -> bool:
    """Returns whether the emulators are in ``directory``, so that :func:`fetch` downloads nothing."""
    return _target(directory).is_dir()


def _target(directory: Path | None) -> Path:
    return (directory or servers_directory()) / "-".join(PACKAGES).replace("@", "_")


def _install(scratch: Path, target: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise ConnectorError(
            "npm is not installed, and it fetches the Kinesis emulators. Install Node.js 18 or later with npm."
        )
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(scratch))
    done = subprocess.run(
        [npm, "install", *options, *PACKAGES],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=_TIME_LIMIT_S,
        check=False,
    )
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-30:])
        raise ConnectorError(f"npm could not fetch {', '.join(PACKAGES)}. Its last lines:\n{last}")
    scratch.rename(target)


def main() -> None:
    """Fetches the packages and prints where they are. If Node.js is missing, prints which tests will be skipped."""
    if node() is None:
        print("Node.js is not installed: the tests against Kinesis emulators will be skipped.", flush=True)
        return
    print(f"Kinesis emulators: {', '.join(PACKAGES)} (30 MB, some seconds)", flush=True)
    try:
        print(f"Kinesis emulators are in {fetch()}", flush=True)
    except (ConnectorError, subprocess.TimeoutExpired) as error:
        sys.exit(str(error))
