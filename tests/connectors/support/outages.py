"""Outages of the network between a query and its external system. The query
names each outage, and loses no record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from flip27_stream.api import Source
from flip27_stream.errors import UnreachableError
from flip27_stream.testing import BlackHole, CutAfter, Delay, Fault, Link, Refuse, Silence
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.testing.task_rows import Row

OUTAGES: dict[str, Fault] = {
    "refused": Refuse(),
    "silent": Silence(),
    "answers are lost": BlackHole("to_client", on_heal="reset"),
    "nothing passes": BlackHole(),
    "answers are cut": CutAfter(20, times=None),
}


def check_outage(
    link: Link,
    fault: Fault,
    source: Source[Any, Any],
    impatient: Source[Any, Any],
    put: Callable[[int], Sequence[bytes]],
    value_of: Callable[[Row], bytes],
) -> None:
    """Checks that planning and reading fail during a fault, and that two queries lose no row after it.

    One of the two ran before the fault, the other one starts after it. Only ``impatient`` has short timeouts, since a
    system that works may be slow on a busy machine.

    Args:
        link: The link that leads to the external system.
        fault: A fault that makes every call fail in the end.
        source: A source that reads through the link.
        impatient: The same source with short timeouts, for the calls that must fail.
        put: Writes so many records past the link, and returns their values.
        value_of: Returns the value of a row.
    """
    expected = Counter(put(20))
    with SourceQuery(source) as query, ExitStack() as faults:
        rows = query.run(20)
        expected.update(put(10))
        batch = query.wait_for_batch()
        tasks = query.tasks(*batch)
        applied = faults.enter_context(link.apply(fault))
        link.cut()
        with SourceQuery(impatient, batch[1]) as failing:
            with pytest.raises(UnreachableError) as reading:
                failing.read(tasks[0])
            with pytest.raises(UnreachableError) as planning:
                failing.run(1)
        assert link.address in str(planning.value), "a plan says who did not answer"
        assert "option" in str(reading.value), "and a task what can be done"
        applied.heal()
        rows += [row for task in tasks for row in query.read(task)]
        expected.update(put(10))
        with SourceQuery(source, batch[1]) as resumed:
            rows += resumed.run(10)
    assert Counter(map(value_of, rows)) == expected


def rows_over_bad_link(query: SourceQuery, link: Link, put: Callable[[int], object]) -> list[Row]:
    """Returns rows of a query whose answers come late, and whose connections are cut again and again.

    Args:
        query: A query that reads through the link.
        link: The link that leads to the external system.
        put: Writes so many records past the link. It is called five times with 12; the rows are some of these.
    """
    rows = []
    with link.apply(Delay(0.01, jitter_s=0.02)):
        for _ in range(5):
            put(12)
            with link.apply(CutAfter(1500, times=2)):
                rows += query.step()
            link.cut()
            rows += query.step()
    return rows
