"""Demos on a real Kafka broker. Each is a folder with its data, its query, its terminal output and its picture.

- ``skew``: one partition is hours behind the others; ``python -m flip27_stream.demo`` runs it.
- ``join``: two topics joined, hours apart in event time.
- ``hybrid``: one query over a Delta table of history and a live topic.

Their common modules are next to the folders, mainly :mod:`~flip27_stream.demo.command`, :mod:`~flip27_stream.demo.run`
and :mod:`~flip27_stream.demo.comparison`. The demos need pyspark and delta-spark, and Java 17 or later.
"""

from flip27_stream.extras import check_installed

for _package in ("matplotlib", "rich"):
    check_installed(_package, "monitoring", "The demo")
