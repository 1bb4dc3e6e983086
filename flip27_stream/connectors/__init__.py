"""The connectors. Each is a source written against :mod:`flip27_stream.api` and what connectors share."""
