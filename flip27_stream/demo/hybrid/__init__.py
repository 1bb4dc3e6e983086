"""One query over a Delta table of history and a live topic: a ``HybridSource`` on a real broker.

Both are written and counted in windows, and event time is drawn over batches with the seam marked.
"""
