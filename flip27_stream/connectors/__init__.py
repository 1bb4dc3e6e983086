"""Connectors: each one a source written against :mod:`flip27_stream.api`, and nothing else of this project."""
