"""The switch from the rows of one source to those of the next: an exact seam, or an overlap in time."""
