"""Carries out the planned kills, stops and changes, and undoes them."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from benchmarks.chaos.environment import ChaosEnvironment
from benchmarks.chaos.plan import Disruption, Turn
from benchmarks.soak.driver import Role
from flip27_stream.testing import PlannedFault

_WORK_S = 3.0

Undo = Callable[[], None]


@dataclass(frozen=True)
class Done:
    """An act that was done.

    Attributes:
        what: A sentence about the act.
        undo: Undoes the act; ``None`` if there is nothing to undo.
    """

    what: str
    undo: Undo | None = None


class Disruptions:
    """Kills, stops and changes of the servers and files of a run.

    Each method does one act and counts it. It returns ``None`` if no process or file was available for the act.

    Attributes:
        counts: The number of acts of each kind.
    """

    def __init__(self, environment: ChaosEnvironment) -> None:
        self.counts: Counter[str] = Counter()
        self._environment = environment
        self._out: set[str] = set()

    def is_out(self, driver: str) -> bool:
        """Returns whether a server or program was stopped or killed by an act."""
        return driver in self._out

    def fault(self, planned: PlannedFault) -> Done:
        applied = self._environment.network.links[planned.link].apply(planned.fault)
        self.counts[f"fault {type(planned.fault).__name__}"] += 1
        return Done(f"{planned.fault} on {planned.link} for {planned.lasts_s:.1f} s", applied.heal)

    def disruption(self, disruption: Disruption) -> Done | None:
        kind, _, target = disruption.what.partition(" ")
        if kind == "kill":
            done = self._kill(target, disruption.pick)
        elif kind == "stop":
            done = self._stop(target, disruption.pick)
        else:
            done = self._change(disruption)
        if done is not None:
            self.counts[disruption.what] += 1
        return done

    def turn(self, turn: Turn) -> Done:
        """Makes a change that is allowed only directly after a comparison has found all rows in the sinks."""
        environment = self._environment
        turns: dict[Turn, Callable[[], None]] = {
            "remake table": environment.remake_table,
            "empty table": environment.table.empty,
            "empty folder": environment.files.empty,
            "remake hybrid": environment.remake_hybrid,
            "nothing": lambda: None,
        }
        turns[turn]()
        self.counts[turn] += 1
        return Done(turn)

    def _kill(self, target: str, pick: float) -> Done | None:
        if target == "broker":
            return self._disrupt_broker("kill", pick)
        if target == "driver":
            return self._kill_driver(pick)
        found = self._picked(_ROLES[target], pick)
        if found is None:
            return None
        name, pid = found
        if target == "worker":  # most workers are idle most of the time
            pid = self._environment.drivers[name].busy("worker", _WORK_S) or pid
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return Done(f"kill {target} {pid} of {name}")

    def _kill_driver(self, pick: float) -> Done | None:
        """Kills all processes of a driver program at once, or its JVM first."""
        found = self._picked("jvm", pick)
        if found is None:
            return None
        name, jvm = found
        driver = self._environment.drivers[name]
        self._out.add(name)
        os.kill(jvm, signal.SIGKILL)
        if pick * 1000 % 2 < 1:
            driver.kill()

        def start() -> None:
            driver.kill()
            driver.start()
            self._out.discard(name)

        return Done(f"kill driver {name}", start)

    def _stop(self, target: str, pick: float) -> Done | None:
        if target == "broker":
            return self._disrupt_broker("stop", pick)
        found = self._picked(_ROLES[target], pick)
        if found is None:
            return None
        name, pid = found
        pids = self._environment.drivers[name].pids() if target == "driver" else [pid]
        _send(signal.SIGSTOP, pids)
        return Done(f"stop {target} {pid} of {name}", lambda: _send(signal.SIGCONT, pids))

    def _disrupt_broker(self, how: str, pick: float) -> Done | None:
        """Kills or stops a broker. Only one is out at a time, since two of three are needed."""
        cluster = self._environment.cluster
        if "broker" in self._out:
            return None
        self._out.add("broker")
        node = 1 + int(pick * 3)
        (cluster.kill if how == "kill" else cluster.pause)(node)

        def undo() -> None:
            (cluster.restart if how == "kill" else cluster.resume)(node)
            self._out.discard("broker")

        return Done(f"{how} broker {node}", undo)

    def _change(self, disruption: Disruption) -> Done | None:
        files, table = self._environment.files, self._environment.table
        if disruption.what == "hide folder":
            files.hide()
            return Done("hide folder", files.show)
        if disruption.what in ("touch file", "remove file"):
            did = (files.touch if disruption.what == "touch file" else files.remove)(disruption.pick)
            return Done(disruption.what) if did else None
        (table.compact if disruption.what == "compact table" else table.checkpoint)()
        return Done(disruption.what)

    def _picked(self, role: Role, pick: float) -> tuple[str, int] | None:
        """Returns a process of a driver program that runs, and the name of the program."""
        there = [
            (name, pid)
            for name, driver in self._environment.drivers.items()
            if name not in self._out
            for pid in driver.pids(role)
        ]
        return there[int(pick * len(there))] if there else None


_ROLES: dict[str, Role] = {"worker": "worker", "planner": "planner", "driver": "jvm"}


def _send(sign: signal.Signals, pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, sign)
