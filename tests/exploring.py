"""The number of examples of property tests: few in a usual run, which always draws the same, and many with
``FLIP27_EXPLORE=1``, which draws others each time.
"""

from __future__ import annotations

import os
from typing import Final

EXPLORES: Final = "FLIP27_EXPLORE" in os.environ
_LEAST, _SHARE = 20, 5


def examples(many: int) -> int:
    """Returns ``many`` with ``FLIP27_EXPLORE=1``, otherwise a fifth of it, but at least 20."""
    return many if EXPLORES else max(many // _SHARE, _LEAST)
