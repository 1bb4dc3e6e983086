"""What built-in connectors share beside the readers: their sources, the discovery of splits, and lost data.

It depends on no connector and not on Spark. What readers share is :mod:`flip27_stream.reader`.
"""
