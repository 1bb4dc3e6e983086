"""Starting threads where the system may have no more of them."""

from __future__ import annotations

import threading

from flip27_stream.errors import ConnectorError


def start(thread: threading.Thread) -> None:
    """Start ``thread``.

    Raises:
        ConnectorError: the process, its user or its container has as many threads as it may have.
    """
    try:
        thread.start()
    except RuntimeError as e:
        raise ConnectorError(
            f"Thread '{thread.name}' cannot be started: {e}. This process, its user or its container has as many as it "
            "may have: raise that limit (ulimit -u, or the limit of pids of the container)."
        ) from e
