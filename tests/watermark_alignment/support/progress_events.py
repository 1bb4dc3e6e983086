"""Progress events in the form in which Spark gives them to listeners."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.streaming.listener import QueryProgressEvent

RUN = uuid.UUID(int=27)


def progress(
    start: Mapping[str, Any] | None,
    end: Mapping[str, Any],
    *,
    dropped: int = 0,
    batch: int = 0,
    name: str = "counts",
    event_time: Mapping[str, str] | None = None,
    latest: object = None,
    others: Sequence[Mapping[str, Any]] = (),
    run: uuid.UUID = RUN,
) -> QueryProgressEvent:
    """Returns a progress in Spark's form, with offsets as JSON within the JSON. ``others`` are further sources of the
    query."""
    source = {
        "description": "PythonMicroBatchStream_0815",
        "startOffset": start,
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": 5,
        "inputRowsPerSecond": 5.0,
        "processedRowsPerSecond": 5.0,
        "metrics": {},
    }
    operator = {
        "operatorName": "stateStoreSave",
        "numRowsTotal": 1,
        "numRowsUpdated": 1,
        "numRowsRemoved": 0,
        "allUpdatesTimeMs": 1,
        "allRemovalsTimeMs": 1,
        "commitTimeMs": 1,
        "memoryUsedBytes": 1,
        "numRowsDroppedByWatermark": dropped,
        "numShufflePartitions": 1,
        "numStateStoreInstances": 1,
        "customMetrics": {},
    }
    sink = {"description": "sink", "numOutputRows": 1, "metrics": {}}
    told = {
        "id": str(RUN),
        "runId": str(run),
        "name": name,
        "timestamp": "1970-01-01T00:00:00.000Z",
        "batchId": batch,
        "batchDuration": 1500,
        "numInputRows": 5,
        "durationMs": {"triggerExecution": 1500},
        "eventTime": event_time or {"watermark": "1970-01-01T00:00:01.000Z"},
        "stateOperators": [operator],
        "sources": [source, *({**source, **other} for other in others)],
        "sink": sink,
    }
    return QueryProgressEvent.fromJson({"progress": json.loads(json.dumps(told))})
