"""Planning a source that is a member of an alignment group."""
