"""The enumerator and the positions of the planning process."""
