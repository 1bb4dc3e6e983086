"""Text into Arrow columns with the meaning that Spark gives it: JSON documents, and dates and times.

All connectors share it, so that a value is the same whether it comes from a topic or from a file. It knows no Spark, no
connector and no client.
"""
