"""The files that were found and are not assigned yet, and the record of the files that were assigned before."""
