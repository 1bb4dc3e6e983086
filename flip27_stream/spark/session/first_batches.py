"""Finds where the first batch of a checkpoint of Spark's own source begins.

That is not in the offset log. Spark's source keeps it in a file ``sources/N/0`` of the checkpoint, which a planning
process cannot find: it does not know its checkpoint. The session knows those of its queries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

_HEAD = 2  # lines before the offsets in a file of the offset log: its version and the metadata


def first_begin_in(spark: SparkSession, end: Any, definition: str) -> str:
    """Returns the offset, as JSON, at which the first batch that ends at ``end`` begins; ``null`` if it is not known.

    Args:
        spark: The session of the query.
        end: The offset that ends the batch.
        definition: The definition of the source; see :class:`SourceSpec`.
    """
    begins = set(_begins(spark, end, definition))
    return begins.pop() if len(begins) == 1 else "null"


def _begins(spark: SparkSession, end: Any, definition: str) -> Iterator[str]:
    """Yields, as JSON, the start offsets of sources whose first batch ends at ``end`` and is not committed.

    The first batch of a source that had no offset yet (``-``) is a later batch of its query.
    """
    for query in spark.streams.active:
        running: Any = query._jsq.streamingQuery()
        root = running.resolvedCheckpointRoot()
        newest = running.offsetLog().getLatestBatchId()
        if newest.isEmpty() or _text(spark, root, f"commits/{newest.get()}") is not None:
            continue
        batch: int = newest.get()
        before = _offsets(spark, root, batch - 1)
        begins: dict[int, str] = {}
        for number, line in enumerate(_offsets(spark, root, batch)):
            is_first = batch == 0 or before[number : number + 1] == ["-"]
            if is_first and line.startswith("{") and json.loads(line) == end:
                begin = _text(spark, root, f"sources/{number}/0")
                if begin is not None:
                    begins[number] = json.dumps(json.loads(begin.partition("\n")[2]))
        if len(set(begins.values())) > 1:  # sources that began at different times, such as two of one topic
            begins = {n: begins[n] for n in _numbers(spark, running, definition) if n in begins}
        yield from begins.values()


def _offsets(spark: SparkSession, root: str, batch: int) -> list[str]:
    """Returns the lines with the offsets of the sources in a file of the offset log; none if there is no such file."""
    return (_text(spark, root, f"offsets/{batch}") or "").splitlines()[_HEAD:]


def _numbers(spark: SparkSession, running: Any, definition: str) -> Iterator[int]:
    """Yields the numbers, in the query, of the sources that were made with a definition; see :class:`SourceSpec`.

    Spark numbers the streaming relations in the order of the plan, equal ones once.
    """
    leaves: Any = running.analyzedPlan().collectLeaves()
    relations: list[Any] = []
    for leaf in (leaves.apply(i) for i in range(leaves.size())):
        if not leaf.isStreaming() or any(leaf.equals(relation) for relation in relations):
            continue
        relations.append(leaf)
        if leaf.getClass().getSimpleName() == "StreamingRelationV2" and leaf.source().isDefined():
            source = leaf.source().get()
            if source.getClass().getSimpleName() == "PythonDataSourceV2":
                no_schema = spark._jvm.scala.Option.empty()  # type: ignore[union-attr]
                made = source.getOrCreateDataSourceInPython(leaf.sourceName(), leaf.extraOptions(), no_schema)
                if definition.encode() in bytes(made.dataSource()):
                    yield len(relations) - 1


def _text(spark: SparkSession, root: str, name: str) -> str | None:
    """Returns the text of a file in a checkpoint, with Hadoop's file systems; ``None`` if there is no such file."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(root, name)
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(path):
        return None
    stream = files.open(path)
    try:
        text: str = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    return text
