"""Random lives of groups: random events for members, their queries and the board of ``group_world``."""

from __future__ import annotations

from random import Random

from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.group_world import TIMEOUT, GroupQuery, GroupWorld, Seat
from tests.watermark_alignment.support.invariants import grow, random_settings
from tests.watermark_alignment.support.simulator import SimulatedMember, SplitLog


def random_group(rng: Random, ticks: int, **fixed: object) -> GroupWorld:
    """Runs a life of two to four members with random events. Some of the members belong to one query."""
    seats = []
    for number in range(rng.randrange(2, 5)):
        settings = random_settings(rng, {"budget": False, **fixed})
        logs = {f"{number}-{i}": SplitLog([rng.randrange(1, 25)]) for i in range(rng.randrange(1, 3))}
        seats.append(
            Seat(
                SimulatedMember(settings, logs),
                entry(f"m{number}", timeout_ms=TIMEOUT),
                interval=rng.choice([1, 1, 5, 100]),
                length=rng.choice([1, 3, 100]),
                stale=rng.choice([0, 1, 10]),
                offset=rng.randrange(-50, 50),
                holds=rng.random() < 0.2,
                update_ms=rng.choice([100, 1000]),
            )
        )
    alone = rng.randrange(len(seats))
    queries = [GroupQuery([seat]) for seat in seats[:alone]] + [GroupQuery(seats[alone:])]
    world = GroupWorld(seats, queries)
    for _ in range(ticks):
        for query in queries:
            befall(rng, world, query)
        world.tick()
    return world


def befall(rng: Random, world: GroupWorld, query: GroupQuery) -> None:
    """Appends data, and sometimes changes the state of the query, of a member, or of the board."""
    for seat in query.seats:
        for log in seat.member.logs.values():
            if rng.random() < 0.1:
                grow(rng, log, seat.member.settings.out_of_orderness)
    if rng.random() > 0.03:
        return
    seat = rng.choice(query.seats)
    what = rng.randrange(8)
    if what < 2 and seat.is_there:
        world.stop(query, says_so=what == 0)
    elif what == 2 and not seat.is_there:
        world.restart(query, rng.choice([0, 0, 2 * TIMEOUT]), rng.choice([1000, 0, -1000]))
    elif what == 3:
        seat.frozen_until = world.now + rng.choice([5, TIMEOUT // 2, 3 * TIMEOUT])
    elif what == 4:
        seat.member.freeze() if seat.member.frozen is None else seat.member.thaw()
    elif what == 5:
        seat.member.logs[f"{seat.name[1:]}-{len(seat.member.logs)}"] = SplitLog([rng.randrange(1, 25)])
    elif what == 6:
        world.is_readable, world.is_writable = rng.random() < 0.5, rng.random() < 0.5
    else:
        world.runs_again()
