"""Runs notebooks in a process that cannot make hard links, as where all files lie on a Databricks volume."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.testing import local_session
from tests.spark.support.processes import QUICK_CONF, quick_start
from tests.watermark_alignment.support.no_hard_links import refuse_hard_links

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
_TIMEOUT_S = 700
_CELL = "# COMMAND ----------"


class VolumeProcess:
    """A process with a Spark session, whose files cannot have hard links."""

    def __init__(self, pool: ProcessPoolExecutor, log: Path) -> None:
        self._pool = pool
        self._log = log

    def run(self, notebook: str, folder: Path, result: str, **parameters: str) -> tuple[Any, str]:
        """Runs a notebook with a folder and further parameters.

        Returns:
            The value of an expression of the names that the notebook defined, and what was written to standard error.
        """
        begin = self._log.stat().st_size if self._log.exists() else 0
        value = self._pool.submit(_run, notebook, str(folder), result, parameters).result(_TIMEOUT_S)
        return value, self._log.read_bytes()[begin:].decode()


@contextmanager
def volume_process(log: Path, links_refused: Mapping[str, str] | None = None) -> Iterator[VolumeProcess]:
    """Starts a process without hard links, and ends it after the block.

    Args:
        log: A file that gets its standard error.
        links_refused: The environment variables that refuse hard links in one folder; by default all are refused.
    """
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {**quick_start(), **(links_refused or {})}.items():
            environment.setenv(name, value)
        pool = ProcessPoolExecutor(
            1, get_context("spawn"), initializer=_begin, initargs=(str(log), links_refused is None)
        )
        with pool:
            pool.submit(_session).result(_TIMEOUT_S)
            try:
                yield VolumeProcess(pool, log)
            finally:
                pool.submit(_end).result(_TIMEOUT_S)


def _begin(log: str, are_refused: bool) -> None:
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    if are_refused:
        refuse_hard_links()


def _session() -> None:
    local_session("volume", conf=QUICK_CONF)


def _end() -> None:
    local_session("volume").stop()


def _run(notebook: str, folder: str, result: str, parameters: Mapping[str, str]) -> Any:
    """Runs each cell twice, as users do. Only the cell that chooses the name of the run is run once."""
    path = NOTEBOOKS / notebook
    with pytest.raises(OSError) as refused:
        os.link(path, f"{folder}/link")
    assert refused.value.errno == errno.ENOSYS, "hard links are not refused"
    spark = local_session("volume").newSession()
    # Databricks runs a notebook as the module __main__.
    names: dict[str, Any] = {"__name__": "__main__", "spark": spark, "folder": folder, **parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # kafka-python reads its message schemas with a function that Python 3.11 and 3.12 warn of.
        warnings.filterwarnings("ignore", "(read_text|open_text) is deprecated", DeprecationWarning)
        for cell in path.read_text().split(_CELL):
            is_first = "def parameter(" in cell
            for _ in range(1 if is_first else 2):
                exec(compile(cell, str(path), "exec"), names)
        return eval(result, names)
