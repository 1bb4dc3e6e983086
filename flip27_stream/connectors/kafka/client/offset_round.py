"""One round of ListOffsets requests: one per leader, to all leaders at once, with retries where they may help."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from kafka.errors import IncompatibleBrokerVersion

from flip27_stream.connectors.kafka.client.answer_deadlines import FULL_S
from flip27_stream.connectors.kafka.client.calls import Call, Question
from flip27_stream.connectors.kafka.client.protocol import (
    MAX_TIMESTAMP,
    UNKNOWN_SERVER_ERROR,
    OffsetAndTimestamp,
    forbidden,
    list_offsets_request,
    partition_offsets,
    refusal,
    unanswerable,
)
from flip27_stream.connectors.kafka.client.round_context import RoundContext
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import AuthenticationError, ConnectorError

Asked = Mapping[TopicPartition, int]
Answers = dict[TopicPartition, OffsetAndTimestamp | None]

_Key = tuple[int, TopicPartition]  # The index of the mapping in the round, and the partition.


class OffsetRound:
    """One round of ListOffsets requests.

    The :class:`AnswerDeadlines` of the context have the time for which the round waits for each partition.

    Args:
        context: The cluster, and the state that earlier rounds left.
        read_committed: Whether the isolation level is ``read_committed``.
        late: Whether late responses are used: this round takes responses to requests of earlier rounds, and later
            rounds may take responses to requests of this round.
        within_s: The time to wait for all partitions, in seconds, instead of the deadlines of the context.
    """

    def __init__(
        self,
        context: RoundContext,
        *,
        read_committed: bool,
        late: bool = False,
        within_s: float | None = None,
    ) -> None:
        self._context = context
        self._cluster = context.cluster
        self._read_committed = read_committed
        self._late = late
        self._within = within_s
        self._asked: Sequence[Asked] = ()
        self._answers: list[Answers] = []
        self._began = 0.0
        self._waiting: dict[Call, list[_Key]] = {}
        self._unsent: list[_Key] = []
        self._failed: list[_Key] = []
        self._throttled: dict[TopicPartition, float] = {}

    def run(self, asked: Sequence[Asked]) -> list[Answers]:
        """Returns one mapping of answers per mapping in ``asked``.

        Partitions that were not answered are left out. The answer is ``None`` if the leader cannot look up the
        timestamp, see :func:`unanswerable`.

        Args:
            asked: The timestamp (ms) or marker to look up, by partition.

        Raises:
            UnreachableError: No broker says which brokers lead the partitions.
            AuthenticationError: A leader refuses this client, or its certificate is not trusted.
            ConnectorError: A leader refuses the request about a partition.
        """
        self._begin(asked)
        retry = self._cluster.retry
        while (until := self._until()) > (now := time.monotonic()):
            self._retry(now)
            owed = self._send()
            if self._failed and not self._waiting and not owed and retry.next_at >= until:
                break
            wait_until = min(until, retry.next_at) if self._failed else until
            while not self._collect() and time.monotonic() < wait_until:
                self._context.wait([*self._waiting, *owed], wait_until)
                if any(call.is_done for call in owed):
                    break
        self._end()
        return self._answers

    def _begin(self, asked: Sequence[Asked]) -> None:
        self._asked, self._answers = asked, [{} for _ in asked]
        self._began = self._context.begin()
        leaders = self._cluster.leaders({tp for wanted in asked for tp in wanted})
        self._unsent = [(i, tp) for i, wanted in enumerate(asked) for tp in wanted]
        if self._context.in_flight:
            self._take_up(leaders)

    def _take_up(self, leaders: Mapping[TopicPartition, int]) -> None:
        """Finds the lookups that earlier rounds have sent and that are not answered yet. They are not sent again.

        The other lookups stay unsent.
        """
        unsent, self._unsent = self._unsent, []
        for key in unsent:
            call = self._context.in_flight.take(self._question(key))
            if self._late and call is not None and call.node == leaders.get(key[1]):
                self._waiting.setdefault(call, []).append(key)
            else:
                self._unsent.append(key)

    def _end(self) -> None:
        for call, keys in self._waiting.items():
            self._context.in_flight.keep(call, map(self._question, keys) if self._late else ())
        if self._within is None:
            for tp in {tp for _, tp in self._pending()}:
                self._context.gave_up(tp, self._allowed(tp))

    def _pending(self) -> Iterable[_Key]:
        for keys in self._waiting.values():
            yield from keys
        yield from self._unsent
        yield from self._failed

    def _until(self) -> float:
        """Returns the time at which the wait for the last unanswered partition ends, in monotonic seconds."""
        partitions = [tp for _, tp in self._pending()]
        if not partitions:
            return self._began
        if self._within is not None:
            return self._began + self._within
        longest_s = self._context.deadlines.longest(partitions, self._began, at_once=not self._late)
        throttled = [tp for tp in partitions if tp in self._throttled] if self._throttled else []
        return self._began + max((longest_s, *map(self._allowed, throttled)))

    def _allowed(self, tp: TopicPartition) -> float:
        """Returns the time for which the round waits for a partition, in seconds."""
        time_limit_s = self._context.deadlines.seconds(tp, self._began, at_once=not self._late)
        return time_limit_s + self._throttled.get(tp, 0.0)

    def _question(self, key: _Key) -> Question:
        i, tp = key
        return tp, self._asked[i][tp], self._read_committed

    def _retry(self, now: float) -> None:
        """Requests metadata and schedules failed lookups again. Lookups of partitions that do not exist are dropped."""
        retry = self._cluster.retry
        if not self._failed or not retry.is_due(now):
            return
        retry.tried(now)
        failed, self._failed = self._failed, []
        topics = self._cluster.topics({tp.topic for _, tp in failed})
        there = {tp for _, tp in failed if tp.topic in topics and tp.partition in topics[tp.topic].leaders}
        self._unsent += [key for key in failed if key[1] in there]

    def _send(self) -> list[Call]:
        """Sends the lookups to all leaders that have no unanswered request of an earlier round.

        Returns the unanswered calls of earlier rounds. Their leaders get no request until these are answered.
        """
        unsent, self._unsent = self._unsent, []
        leaders = self._cluster.leaders({tp for _, tp in unsent}) if unsent else {}
        owed = {leader: self._context.in_flight.unanswered_by(leader) for leader in set(leaders.values())}
        groups: dict[tuple[int, int], list[_Key]] = defaultdict(list)
        for i, tp in unsent:
            if tp not in leaders:
                self._failed.append((i, tp))
            elif owed[leaders[tp]]:
                self._unsent.append((i, tp))
            else:
                groups[leaders[tp], i].append((i, tp))
        for (leader, i), keys in groups.items():
            self._waiting[self._call(leader, {tp: self._asked[i][tp] for _, tp in keys})] = keys
        return [call for calls in owed.values() for call in calls]

    def _call(self, leader: int, wanted: Asked) -> Call:
        throttled = self._cluster.connections.throttled_for(leader)
        if throttled <= FULL_S and (throttled or self._throttled):
            self._throttled |= dict.fromkeys(wanted, throttled)
        return self._context.call(leader, wanted, lambda: list_offsets_request(wanted, self._read_committed))

    def _collect(self) -> bool:
        """Handles the calls that are done. Returns whether any call was done."""
        done = [call for call in self._waiting if call.is_done]
        for call in done:
            keys = self._waiting.pop(call)
            if call.answer is not None:
                self._take(call, keys)
            else:
                self._act_on(call, keys)
        return bool(done)

    def _take(self, call: Call, keys: list[_Key]) -> None:
        now = time.monotonic()
        found = partition_offsets(call.answer, late=now - call.sent > FULL_S)
        answered = []
        for i, tp in keys:
            error, answer = found.get(tp, (UNKNOWN_SERVER_ERROR, None))
            if not error and answer is not None:
                self._answers[i][tp] = answer
                answered.append(tp)
            elif unanswerable(error, self._asked[i][tp]):
                self._answers[i][tp] = None
            elif forbidden(error):
                raise refusal(f"ListOffsets of {tp}", error)
            else:
                self._fail((i, tp))
        self._context.deadlines.waited(answered, now - self._began, now)

    def _act_on(self, call: Call, keys: list[_Key]) -> None:
        """Handles a call that has failed."""
        if isinstance(call.error, AuthenticationError):
            raise call.error
        for i, tp in keys:
            if not isinstance(call.error, IncompatibleBrokerVersion):
                self._fail((i, tp))
            elif self._asked[i][tp] == MAX_TIMESTAMP:
                self._answers[i][tp] = None
            else:
                raise ConnectorError(
                    f"{self._cluster.address(call.node).capitalize()} supports no version of ListOffsets that this "
                    f"source supports: {call.error}"
                )

    def _fail(self, key: _Key) -> None:
        self._cluster.forget_leaders([key[1]])
        self._failed.append(key)
