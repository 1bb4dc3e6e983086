"""The backlog of found files that are not assigned yet, and the record of the files that were assigned before."""
