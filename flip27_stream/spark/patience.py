"""Waiting for splits about which there is no answer, but not for ever."""

from __future__ import annotations

import time
from collections.abc import Collection

from flip27_stream.errors import ConnectorError

PATIENCE_S = 60.0
_PAUSE_S = 0.05


class Patience:
    """The patience of one plan."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + PATIENCE_S

    def wait_for(self, silent: Collection[str]) -> None:
        """Wait a moment.

        Raises:
            ConnectorError: there are silent splits, and there were for too long.
        """
        if silent and time.monotonic() > self._deadline:
            raise ConnectorError(
                f"No answer about {len(silent)} splits, {min(silent)} among them, for {PATIENCE_S:g} s, and nothing "
                "can be planned without. Check that their leaders are up."
            )
        time.sleep(_PAUSE_S)
