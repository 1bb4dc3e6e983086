"""One query over a Delta table of history and a live topic: a ``HybridSource`` on a real broker.

``python -m flip27_stream.demo.hybrid`` writes both, counts them in windows, and draws event time over batches with the
seam marked. It needs pyspark and delta-spark, and Java 17 or later.
"""
