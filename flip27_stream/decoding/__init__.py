"""Decoders of text (JSON documents, dates and times) into Arrow columns, with the same results as Spark's functions.

All connectors share them, so that a value is the same whether it comes from a topic or from a file. They import neither
Spark nor a connector nor a client.
"""
