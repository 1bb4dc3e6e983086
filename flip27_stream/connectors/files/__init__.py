"""Files and Delta tables as a source."""

from flip27_stream.connectors.files.source import FileSource, FileSourceFactory

__all__ = ["FileSource", "FileSourceFactory"]
