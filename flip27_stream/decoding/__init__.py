"""Decoders of text into Arrow columns, with the meaning that Spark gives it: JSON documents, and dates and times.

All connectors share them, so that a value is the same whether it comes from a topic or from a file. They import neither
Spark nor a connector nor a client.
"""
