"""An object store that speaks S3: a server process on a free loopback port."""

from __future__ import annotations

import sys
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from pyarrow import fs

from flip27_stream.testing import wait_until
from flip27_stream.testing.child import Child
from flip27_stream.testing.free_ports import free_port

if TYPE_CHECKING:
    from typing_extensions import Self

BUCKET = "chaos"
_START_S = 60.0


class Store:
    """A context manager that runs the server, which keeps all objects in memory. ``folder`` gets its log."""

    def __init__(self, folder: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._folder = folder
        self._server: Child | None = None

    def __enter__(self) -> Self:
        host, _, port = self.address.partition(":")
        command = [sys.executable, "-m", "moto.server", "-H", host, "-p", port]
        self._server = Child(command, log=self._folder / "store.log", scratch=self._folder)
        try:
            wait_until(self._answers, "the store", _START_S)
            self.filesystem.create_dir(BUCKET)
        except BaseException:
            self._server.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.kill()

    @property
    def filesystem(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            access_key="me",
            secret_key="me",
            region="us-east-1",
            scheme="http",
            endpoint_override=self.address,
            allow_bucket_creation=True,
        )

    def options(self, address: str | None = None) -> dict[str, str]:
        """Returns the options of delta-rs for clients that reach the store at ``address``.

        By default it is the store's own address.
        """
        return {
            "aws_access_key_id": "me",
            "aws_secret_access_key": "me",
            "aws_region": "us-east-1",
            "aws_endpoint_url": f"http://{address or self.address}",
            "aws_allow_http": "true",
            "aws_conditional_put": "etag",
        }

    def _answers(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://{self.address}/", timeout=1):
            return True
        return False
