"""Demos on a real Kafka broker, each a folder: what it writes, its job, what the terminal shows, and its picture.

- ``skew``: one partition is hours behind the others; ``python -m flip27_stream.demo`` runs it.
- ``join``: two topics joined, hours apart in event time.
- ``hybrid``: one query over a Delta table of history and a live topic.

What they share is beside the folders: first of all a :mod:`~flip27_stream.demo.story`, a :mod:`~flip27_stream.demo.run`
and a :mod:`~flip27_stream.demo.comparison`. They need pyspark and delta-spark, and Java 17 or later.
"""

from flip27_stream.extras import check_installed

for _package in ("matplotlib", "rich"):
    check_installed(_package, "monitoring", "The demo")
