"""The fixtures of all tests of files: a folder of files, and a folder for split-watermark tables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.connectors.files.support.file_query import SECOND, FileQuery, write


@pytest.fixture(scope="session", autouse=True)
def _tables(tmp_path_factory: pytest.TempPathFactory) -> None:
    FileQuery.tables = tmp_path_factory.mktemp("tables")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten files of 100 rows and 100 seconds each. Neither names nor modification times are in the
    order of event times.
    """
    data = tmp_path / "data"
    for number in range(10):
        path = data / f"{number * 7 % 10}.parquet"
        write(path, number * 100 * SECOND + 1, ids=number * 100)
        os.utime(path, (10**9 + number * 3 % 10,) * 2)
    return data
