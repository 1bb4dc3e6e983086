"""Types of NumPy arrays that several packages use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
"""Positions, offsets, counts or times."""
Flags = npt.NDArray[np.bool_]
"""A truth value for each element of another array."""
