"""Where the rows of one source end and those of the next begin: an exact seam, or an overlap in time."""
