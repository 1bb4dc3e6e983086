"""Code that built-in connectors share: base classes of sources, the discovery of splits, and reports of lost data.

It depends on no connector and not on Spark. The base classes of readers are in :mod:`flip27_stream.reader`.
"""
