"""The enumerator of the Kinesis source.

It discovers shards, assigns a shard after its parents are processed, and finds the range of each shard.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flip27_stream.api import (
    ReadLimits,
    SourceEvent,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitRange,
)
from flip27_stream.connector_base.byte_limit import within_bytes
from flip27_stream.connector_base.split_discovery import SplitDiscovery
from flip27_stream.connectors.kinesis.client.client import KinesisClient, Shard, StreamIdentity
from flip27_stream.connectors.kinesis.client.consumers import Consumers
from flip27_stream.connectors.kinesis.client.errors import LostRecordError, NotThereError
from flip27_stream.connectors.kinesis.client.session import THREADS
from flip27_stream.connectors.kinesis.client.shard_limits import ShardLimits
from flip27_stream.connectors.kinesis.options.initial_position import Start
from flip27_stream.connectors.kinesis.options.source_options import KinesisOptions, bytes_per_second
from flip27_stream.connectors.kinesis.planning.ended_shards import EndedShards
from flip27_stream.connectors.kinesis.planning.enumerator_state import KinesisEnumeratorState, StreamState
from flip27_stream.connectors.kinesis.planning.listed_shards import DiscoveredShards, ListedShards
from flip27_stream.connectors.kinesis.planning.losses import Loss, LossReports
from flip27_stream.connectors.kinesis.planning.registration import keep_registered
from flip27_stream.connectors.kinesis.planning.shard_log import ShardLog
from flip27_stream.connectors.kinesis.positions import TRIM_HORIZON, described
from flip27_stream.connectors.kinesis.read_event import ShardRangesRead
from flip27_stream.connectors.kinesis.split import KinesisShardSplit
from flip27_stream.threads import CallPool
from flip27_stream.wall_clock import now_ms

log = logging.getLogger(__name__)

_IDENTITY_S = 10.0


class KinesisSourceEnumerator(SplitEnumerator[KinesisShardSplit, KinesisEnumeratorState]):
    """The enumerator of a Kinesis source (Flink ``KinesisStreamsSourceEnumerator``).

    Life cycle:

    1. :meth:`start` starts the initial discovery, and a further discovery every ``shardFetchInterval``.
    2. A discovery lists the shards. A shard is assigned if all its parents are processed (:meth:`_assign_ready`). The
       other shards wait for their parents; :meth:`pending` returns their number. Shards of the first listing begin
       at the position in the options, later shards at their first record.
    3. For each micro-batch :meth:`split_ranges` finds the range of each shard (:class:`ShardLog`), in threads. The
       end of a closed shard is final once its children are listed.
    4. A shard that is processed up to a final end is retired in :meth:`admit`, and its children are assigned in the
       same plan.
    5. :meth:`snapshot_state` returns the shards that are begun and done, and the identity of each stream.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[KinesisShardSplit],
        options: KinesisOptions,
        state: KinesisEnumeratorState,
    ) -> None:
        self._context = context
        self._options = options
        self._state = state
        shard_limits = ShardLimits(options.min_fetch_period_ms / 1000, bytes_per_second(options))
        self._client = KinesisClient(options.connection, shard_limits)
        self._consumers = None if options.fan_out is None else Consumers(self._client, options.fan_out)
        self._pool = CallPool(THREADS, "flip27-kinesis")
        self._discovery = SplitDiscovery[DiscoveredShards](
            context, self._take_in, log, "shards", failed="Failed to list shards."
        )
        self._listed = ListedShards()
        self._ended = EndedShards(self._client)
        self._logs: dict[str, ShardLog] = {}
        self._ranges: dict[str, SplitRange] = {}
        self._processed: Mapping[str, int] = {}
        self._first_times: dict[str, int] = {}
        self._read: dict[str, Mapping[str, int]] = {}
        self._limits = ReadLimits()
        self._identified_at, self._is_remade = float("-inf"), False
        self._is_restored = bool(state.streams)
        self._reports = LossReports(fail=options.fail_on_data_loss)

    @property
    def calls(self) -> Mapping[str, int]:
        """The number of calls that were made, by operation."""
        return self._client.calls

    def start(self) -> None:
        self._discovery.start(self._discover, self._options.shard_fetch_interval_ms)
        if self._consumers is not None and (fan_out := self._options.fan_out) is not None:
            keep_registered(self._context, self._consumers, fan_out.refresh_interval_ms)

    # ---- discovery ------------------------------------------------------------------------------------------------

    def _discover(self) -> DiscoveredShards:
        """Returns the shards of all streams. Runs in a worker thread.

        Raises:
            MissingTopicError: A stream does not exist.
        """
        streams, number = self._options.streams, self._listed.next_number()
        identities = {}
        if time.monotonic() - self._identified_at >= _IDENTITY_S:
            identities = {stream: self._client.identity(stream) for stream in streams}
            self._identified_at = time.monotonic()
        shards = {stream: self._client.shards(stream) for stream in streams}
        return DiscoveredShards(number, shards, identities)

    def _take_in(self, discovery: DiscoveredShards) -> None:
        """Takes in a discovery. A listing that began before the known listing is ignored."""
        if self._state.start_time is None:
            initial = self._options.initial_position
            self._state = replace(self._state, start_time=(began := initial.start_time(now_ms())))
            if initial.start is Start.AT_TIMESTAMP:
                self._reports.warn_of_gap(self._client, discovery.identities, began)
        for stream, shards in discovery.shards.items():
            if self._listed.is_new(stream, discovery.number):
                self._take_in_stream(stream, shards, discovery)
        self._assign_ready()

    def _take_in_stream(self, stream: str, shards: Sequence[Shard], discovery: DiscoveredShards) -> None:
        self._listed.put(stream, shards, discovery.number)
        known, identity = self._state.streams.get(stream), discovery.identities.get(stream)
        if identity is not None and known is None:
            known = StreamState(identity.arn, identity.created)
        elif identity is not None and known is not None and not known.is_of(identity):
            known = self._successor(stream, known, identity)
        if known is not None:
            self._state = self._state.with_stream(stream, known.listed(shards) if shards else known)

    def _successor(self, stream: str, known: StreamState, identity: StreamIdentity) -> StreamState:
        """Returns the state of a stream that was deleted and created again, whose shards have the same ids as before.

        A shard iterator may have led on into the new stream: what was read of it is not read again.

        Raises:
            DataLossError: ``failOnDataLoss`` is set.
        """
        self._reports.report_stream(stream, known, identity)
        old = {n: split for n, split in self._context.assigned_splits().items() if split.stream == stream}
        read = {split.shard_id: self._processed.get(name, TRIM_HORIZON) for name, split in old.items()}
        self._read[stream] = self._listed.positions_within(stream, read)
        self._retire(old)
        return StreamState(identity.arn, identity.created, known.generation + 1)

    def _retire(self, names: Collection[str]) -> None:
        self._context.retire_splits(names)
        for name in names:
            self._logs.pop(name, None)
            self._ranges.pop(name, None)

    def _waiting(self) -> Iterator[tuple[str, Shard]]:
        """Yields listed shards that are neither begun nor done, with their streams."""
        return self._listed.waiting(self._state.streams)

    def _assign_ready(self) -> None:
        readers, streams = self._context.current_parallelism(), self._state.streams
        ready = [
            (stream, shard)
            for stream, shard in sorted(self._waiting(), key=lambda one: (one[0], one[1].shard_id))
            if self._listed.is_ready(stream, shard, streams[stream])
        ]
        lost = {
            f"{stream}/{parent}"
            for stream, shard in ready
            for parent in self._listed.lost_parents(stream, shard, streams[stream])
        }
        if lost:
            self._reports.report_parents(lost)
        for stream, shard in ready:
            split = self._split(stream, shard)
            known = self._state.streams[stream].with_begun(shard.shard_id)
            self._context.assign_split(split, len(known.begun | known.done) % readers)
            self._state = self._state.with_stream(stream, known)

    def _split(self, stream: str, shard: Shard) -> KinesisShardSplit:
        generation = self._state.streams[stream].generation
        return KinesisShardSplit(
            stream, shard.shard_id, shard.first_hash_key, shard.last_hash_key, generation=generation
        )

    def pending(self) -> int:
        """Returns the number of shards whose parents are not processed yet."""
        return sum(1 for _ in self._waiting())

    # ---- ranges ---------------------------------------------------------------------------------------------------

    def admit(self, limits: ReadLimits) -> None:
        self._limits = limits
        if self._is_remade:
            self._is_remade, self._identified_at = False, float("-inf")
            self._take_in(self._discover())
        if self._is_restored:
            # The offset does not tell which shards are at their ends. A run with Trigger.Once has only this plan.
            self._is_restored = False
            closed = filter(self._listed.has_children, self._context.assigned_splits().values())
            self.split_ranges({s: at for s in closed if (at := self._processed.get(s.split_id)) is not None})
        done = {
            name: split
            for name, split in self._context.assigned_splits().items()
            if (r := self._ranges.get(name)) is not None
            and r.final
            and self._processed.get(name, -1) >= r.end
        }
        if done:
            self._retire(done)
            for split in done.values():
                known = self._state.streams[split.stream].with_done(split.shard_id)
                self._state = self._state.with_stream(split.stream, known)
            self._assign_ready()

    def notify_checkpoint_complete(self, positions: Mapping[str, int]) -> None:
        self._processed = positions

    def freeze(self) -> None:
        self._discovery.frozen = True

    def split_ranges(self, positions: Mapping[KinesisShardSplit, int | None]) -> Mapping[str, SplitRange]:
        found = self._pool.results(
            {split.split_id: partial(self._look, split, at) for split, at in positions.items()}
        )
        ranges = {name: one for name, one in found.items() if isinstance(one, SplitRange)}
        if losses := [one for one in found.values() if isinstance(one, Loss)]:
            ranges = self._after_losses(losses, ranges)
        here = [split for split in positions if split.split_id in ranges]
        unlisted = {
            split for split in here if ranges[split.split_id].final and not self._listed.has_children(split)
        }
        if unlisted and not self._discovery.frozen:
            self._take_in_children(unlisted)
        self._ranges = {split.split_id: self._checked_end(split, ranges[split.split_id]) for split in here}
        if self._limits.max_bytes is None:
            return self._ranges
        sizes = {name: self._logs[name].bytes_per_row for name in self._ranges}
        return within_bytes(self._ranges, self._limits.max_bytes, sizes, self._cut_after)

    def _look(self, split: KinesisShardSplit, position: int | None) -> SplitRange | Loss:
        begin, is_new = TRIM_HORIZON if position is None else position, position is None
        log, parents = self._log_of(split), self._listed.parents_of(split) if is_new else ()
        if is_new:
            log.seen_at = self._ended.reached_at(parents) or log.seen_at or now_ms()
        seen_at, was_cut = log.seen_at, log.is_cut
        try:
            begin = self._begin(split) if position is None else position
            found = self._range(split, begin)
        except (LostRecordError, NotThereError) as error:
            return Loss(split, begin, error, seen_at=seen_at)
        self._ended.note(split, log, begin, found, seen_at)
        is_missing = log.is_start_missing
        if position not in (None, TRIM_HORIZON) and not is_missing:
            return found
        # Without a record, it is unknown which records followed the position, and whether the stream was created
        # again since the position was planned.
        is_late = seen_at is not None and self._ended.is_late(split.stream, seen_at, parents)
        loss = Loss(split, begin, None, found, seen_at, is_late=is_late, is_cut=is_missing and was_cut)
        return loss if is_missing or is_late or (found.end > TRIM_HORIZON and not is_new) else found

    def _range(self, split: KinesisShardSplit, position: int) -> SplitRange:
        return self._log_of(split).look(
            position,
            frozen=self._discovery.frozen,
            is_closed=self._listed.has_children(split),
            limit=self._limits.max_rows,
        )

    def _after_losses(
        self, losses: Collection[Loss], ranges: Mapping[str, SplitRange]
    ) -> dict[str, SplitRange]:
        """Returns the ranges of a plan that found losses, after they were reported.

        The shards of a stream that was created again have no ranges. The next plan begins with the new stream.
        """
        streams, known = {loss.split.stream for loss in losses}, self._state.streams
        remade = {stream for stream in streams if not known[stream].is_of(self._client.identity(stream))}
        self._is_remade = bool(remade)
        left = [loss for loss in losses if loss.split.stream not in remade]
        going_on = self._pool.results({loss.split.split_id: partial(self._go_on, loss) for loss in left})
        splits = self._context.assigned_splits()
        return {n: r for n, r in {**ranges, **going_on}.items() if splits[n].stream not in remade}

    def _go_on(self, loss: Loss) -> SplitRange:
        """Reports a loss. Returns the range from the first existing record on."""
        split, position = loss.split, loss.position
        if loss.found is not None:
            self._reports.report_doubt(loss)
            return loss.found
        self._reports.report_records(loss)
        try:
            self._log_of(split).skip_lost(position)
            found = self._range(split, position)
        except NotThereError:
            if split.shard_id in {shard.shard_id for shard in self._client.shards(split.stream)}:
                raise
            self._listed.forget(split)
            return SplitRange(position, position, drained=True, final=True, rows=0)
        self._ended.note(split, self._log_of(split), position, found, loss.seen_at)
        return found

    def _begin(self, split: KinesisShardSplit) -> int:
        """Returns the position where a new shard begins.

        Shards that were not in the first listing, and streams that were created again, are read from their first
        record, or from where reading was led on into them.
        """
        if split.generation:
            return self._read.get(split.stream, {}).get(split.shard_id, TRIM_HORIZON)
        is_new = not self._state.streams[split.stream].is_initial(split.shard_id)
        start_time = self._state.start_time
        if is_new or self._options.initial_position.start is Start.TRIM_HORIZON or start_time is None:
            return TRIM_HORIZON
        return ShardLog(self._client, split, self._options.settling_time_ms).begin_at(start_time)

    def _log_of(self, split: KinesisShardSplit) -> ShardLog:
        name = split.split_id
        if name not in self._logs:
            self._logs[name] = ShardLog(
                self._client,
                split,
                self._options.settling_time_ms,
                seen_at=self._state.seen_at,
                is_cut=name in self._state.cut,
            )
        return self._logs[name]

    def _take_in_children(self, closed: set[KinesisShardSplit]) -> None:
        """Lists the streams of closed shards again, to find the shards that replace them."""
        number, streams = self._listed.next_number(), {split.stream for split in closed}
        shards = {stream: self._client.shards(stream) for stream in streams}
        self._take_in(DiscoveredShards(number, shards, {}))

    def _checked_end(self, split: KinesisShardSplit, r: SplitRange) -> SplitRange:
        """Returns the range of a shard, which is final only if its children are known, or if it has expired."""
        if not r.final or self._listed.has_children(split) or not self._listed.is_listed(split):
            return r
        return SplitRange(r.position, r.end, r.drained, rows=r.rows)

    def positions_after(self, rows: Mapping[str, int]) -> Mapping[str, int]:
        calls = {name: partial(self._cut_after, name, count) for name, count in rows.items()}
        return self._pool.results(calls)

    def _cut_after(self, name: str, rows: int) -> int:
        return self._logs[name].cut_after(rows, self._ranges[name].end)

    def describe_positions(self, positions: Mapping[str, int]) -> Mapping[str, Any]:
        """Returns the positions with the service's names of iterator types."""
        return {name: described(position) for name, position in positions.items()}

    def snapshot_state(self) -> KinesisEnumeratorState:
        """Returns the state without the shards that were not planned yet; a restart discovers these again."""
        if logs := {name: self._logs[name] for name in self._ranges}:
            drained = [name for name, log in logs.items() if self._ranges[name].drained and not log.closed]
            ends = [at for name in drained if (at := logs[name].seen_at) is not None]
            cut = [name for name, log in logs.items() if log.is_cut]
            self._state = self._state.with_seen_ends(now_ms(), ends, self._waited_for(), cut)
        state, assigned = self._state, self._context.assigned_splits()
        for stream, known in state.streams.items():
            unplanned = {
                split.shard_id
                for name, split in assigned.items()
                if split.stream == stream and name not in self._ranges
            }
            state = state.with_stream(stream, known.planned(unplanned))
        return state

    def _waited_for(self) -> list[int]:
        """Returns, for each shard that is not planned yet, a time (ms) before all of its records, if one is known.

        Forgets the ends of shards that no such shard has as parents, and that this plan did not read.
        """
        assigned = self._context.assigned_splits()
        unplanned = [split for name, split in assigned.items() if name not in self._ranges]
        unplanned += [self._split(stream, shard) for stream, shard in self._waiting()]
        groups = [self._listed.parents_of(split) for split in unplanned]
        groups += [(name,) for name in self._ranges]
        self._ended.keep({name for group in groups for name in group})
        return [at for group in groups if (at := self._ended.reached_at(group)) is not None]

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        """Records the numbers of records that a task has read. The estimates of later plans use them."""
        if (read := ShardRangesRead.of(event)) is not None:
            for one in read.ranges:
                if one.split_id in self._logs:
                    self._logs[one.split_id].note_rows(one.rows, one.first_time, one.last_time)

    def close(self) -> None:
        if self._consumers is not None:
            self._consumers.deregister()
        self._pool.close()
