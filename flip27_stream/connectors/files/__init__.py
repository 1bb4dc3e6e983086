"""The source of files and Delta tables."""

from flip27_stream.connectors.files.source import FileSource, FileSourceFactory

__all__ = ["FileSource", "FileSourceFactory"]
