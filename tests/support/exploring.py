"""The number of examples of property tests: few in a usual run, which always draws the same; half as many with
``FLIP27_QUICK=1``, as in ``make test-fast``; and many with ``FLIP27_EXPLORE=1``, which draws others each time.
"""

from __future__ import annotations

import os
from typing import Final

EXPLORES: Final = "FLIP27_EXPLORE" in os.environ
_SHARE, _LEAST = (10, 10) if "FLIP27_QUICK" in os.environ else (5, 20)


def examples(many: int) -> int:
    """Returns ``many`` with ``FLIP27_EXPLORE=1``; at least 10 and a tenth of it with ``FLIP27_QUICK=1``; otherwise at
    least 20 and a fifth of it.
    """
    return many if EXPLORES else max(many // _SHARE, _LEAST)
