"""The demo of a ``HybridSource``: one query over a Delta table of history and a live topic.

Both are written and counted in windows. The picture shows event time over batches, with the seam.
"""
