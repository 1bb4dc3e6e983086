"""Commits the processed offsets to a consumer group without members, so that tools can show the lag of the query."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.kafka_python.messages import OffsetCommitRequest
from flip27_stream.connectors.kafka.planning.group_coordinator import GroupCoordinator
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import ConnectorError
from flip27_stream.threads import start

log = logging.getLogger(__name__)

_NO_GENERATION = -1
_BY_TOPIC_NAME = 8


class GroupCommitter:
    """Commits processed offsets in its own worker thread. Failures are logged as warnings and do not stop the query.

    If more offsets are processed before a commit is sent, only the newest ones are committed.

    Args:
        client: A client that only this object uses; the object closes it.
        group: The consumer group.
    """

    def __init__(self, client: KafkaClient, group: str) -> None:
        self._client = client
        self._group = group
        self._coordinator = GroupCoordinator(client, group)
        self._changed = threading.Condition()
        self._due: dict[TopicPartition, int] = {}
        self._told: dict[TopicPartition, int] = {}
        self._busy = self._closed = self._lacks_thread = False
        self._worker: threading.Thread | None = None

    def processed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Records that everything before these offsets is processed. A thread commits the offsets that have changed."""
        changed = {
            tp: offset for tp, offset in offsets.items() if offset >= 0 and self._told.get(tp) != offset
        }
        if not changed:
            return
        self._told.update(changed)
        with self._changed:
            self._due.update(changed)
            if self._worker is None:
                self._start()
            self._changed.notify_all()

    def _start(self) -> None:
        worker = threading.Thread(target=self._work, name="flip27-group-offsets", daemon=True)
        try:
            start(worker)
            self._worker = worker
        except ConnectorError as error:
            if not self._lacks_thread:
                log.warning(
                    "%s Meanwhile offsets are not committed to consumer group '%s'.", error, self._group
                )
            self._lacks_thread = True

    def flush(self, timeout_s: float) -> bool:
        """Waits up to ``timeout_s`` seconds until all offsets are committed, or failed to.

        Returns true if all are committed or failed, and false on time-out.
        """
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._due and not self._busy, timeout_s if self._worker else 0
            )

    def close(self, timeout_s: float) -> None:
        """Commits the offsets that are due within ``timeout_s`` seconds, and ends the worker thread.

        A commit that is under way after that time ends within some seconds, in the worker thread.
        """
        self.flush(timeout_s)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._coordinator.close()
        if self._worker is None:
            self._client.close()

    def _work(self) -> None:
        """Runs the worker thread. It also closes the client, since only this thread uses it."""
        try:
            self._commit_what_is_due()
        finally:
            self._client.close()

    def _commit_what_is_due(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._due or self._closed)
                if self._closed:
                    return
                due, self._due, self._busy = self._due, {}, True
            try:
                self._commit(due)
            except ConnectorError as error:
                log.warning("Offsets were not committed to consumer group '%s': %s", self._group, error)
            except Exception:
                log.warning("Offsets were not committed to consumer group '%s'", self._group, exc_info=True)

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._coordinator.ask(
            lambda: _commit_request(self._group, offsets),
            lambda answer: [p.error_code for topic in answer.topics for p in topic.partitions],
        )


def _commit_request(group: str, offsets: Mapping[TopicPartition, int]) -> Any:
    """Returns an OffsetCommitRequest without a member id.

    A group without members accepts such a request, and a group with members refuses it.
    """
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        topics=[
            topic(
                name=name,
                partitions=[
                    partition(partition_index=tp.partition, committed_offset=offset, committed_metadata="")
                    for tp, offset in of_topic
                ],
            )
            for name, of_topic in groupby(sorted(offsets.items()), lambda item: item[0].topic)
        ],
        max_version=_BY_TOPIC_NAME,
    )
