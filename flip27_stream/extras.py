"""Checks for packages that only some queries and tools need: the extras of setup.cfg."""

from __future__ import annotations

from importlib.util import find_spec

from flip27_stream.errors import MissingExtraError


def check_installed(package: str, extra: str, purpose: str) -> None:
    """Checks that a package of an extra is installed.

    Args:
        package: The name by which the package is imported.
        extra: The extra of flip27-stream that installs it.
        purpose: What needs the package, as the subject of a sentence.

    Raises:
        MissingExtraError: The package is not installed.
    """
    if find_spec(package) is None:
        raise MissingExtraError(
            f"{purpose} needs the package '{package}', which is not installed on this machine. Install it on the "
            f"driver and on the executors: pip install 'flip27-stream[{extra}]'"
        )
