"""The enumerator of a hybrid source: the active source, the end of each source, and the start of the next one."""
