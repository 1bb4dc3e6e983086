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
    query.
    """
    source = _source(start, end, latest)
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
        "stateOperators": [_operator(dropped)],
        "sources": [source, *({**source, **other} for other in others)],
        "sink": {"description": "sink", "numOutputRows": 1, "metrics": {}},
    }
    return QueryProgressEvent.fromJson({"progress": json.loads(json.dumps(told))})


def _source(start: Mapping[str, Any] | None, end: Mapping[str, Any], latest: object) -> dict[str, Any]:
    return {
        "description": "PythonMicroBatchStream_0815",
        "startOffset": start,
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": 5,
        "inputRowsPerSecond": 5.0,
        "processedRowsPerSecond": 5.0,
        "metrics": {},
    }


def _operator(dropped: int) -> dict[str, Any]:
    return {
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
