"""Processes that start servers and are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def killed_parent(script: str) -> Iterator[list[str]]:
    """Runs a script in a process, yields the words of the first line that it prints, and kills the process.

    Args:
        script: Python code that prints one line, and then waits for the end of its standard input.
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        yield parent.stdout.readline().split()
        os.kill(parent.pid, signal.SIGKILL)
