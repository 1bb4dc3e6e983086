"""Server processes that end when the process that started them ends, even if it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

# A shell script that reads until end of file, which comes when the parent dies, even by kill -9. (The kernel's
# parent-death signal is no alternative: it is sent when the *thread* that started the child ends.)
_WATCH = 'read -r _; kill -9 "$1" 2>/dev/null; rm -rf "$2"'


class Child:
    """A running command whose output is written to the file ``log``.

    It has its own session, so that Ctrl-C in a terminal does not end it. If this process dies first, the command is
    killed and ``scratch`` is removed.
    """

    def __init__(self, command: Sequence[str], *, log: Path, scratch: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "watch", str(self._process.pid), str(scratch)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def pause(self) -> None:
        """Freezes the process (SIGSTOP). Returns when all its threads are stopped. :meth:`resume` continues it."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self, timeout: float) -> None:
        """Ends the process with SIGTERM, or with SIGKILL if that takes longer than ``timeout`` seconds."""
        self.resume()
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """Kills the process (SIGKILL) and waits until it has ended. Does nothing if it has ended."""
        # The watch ends first. Otherwise it could kill a process id that has been given to another process.
        self._watch.kill()
        self._watch.communicate()
        self._process.kill()
        self._process.wait()

    def tail(self, lines: int = 30) -> str:
        """Returns the last lines of its output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
