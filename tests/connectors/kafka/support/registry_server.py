"""A schema registry on this machine that speaks the REST API of Confluent's registry. Tests can cause faults."""

from __future__ import annotations

import json
import ssl
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import fastavro

from tests.connectors.support.http_answers import Answer, AnswerHandler, QuietServer, serving


@dataclass
class RegistryServer:
    """A registry whose schemas and faults a test sets.

    Attributes:
        url: The address of the server.
        schemas: The documents of the schemas, by id.
        subjects: The ids of the versions of each subject.
        fault: Is called with the path of each request; returns an answer in place of the right one, or ``None``.
        asked: The requests so far: their paths and their headers, by names in lower case.
    """

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    fault: Callable[[str, Mapping[str, str]], Answer | None] = lambda *_: None
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        """The paths of the requests so far."""
        return [path for path, _ in self.asked]

    def register(
        self,
        subject: str,
        schema: Any,
        kind: str | None = None,
        references: Sequence[tuple[str, str, int]] = (),
    ) -> int:
        """Adds a version to a subject, and returns the id of its schema."""
        id_ = len(self.schemas) + 1
        document: dict[str, Any] = {"schema": json.dumps(schema)}
        if kind is not None:
            document["schemaType"] = kind
        if references:
            document["references"] = [
                {"name": name, "subject": at, "version": version} for name, at, version in references
            ]
        self.schemas[id_] = document
        self.subjects.setdefault(subject, []).append(id_)
        return id_

    def answer(self, path: str) -> Answer:
        """Returns the answer of a registry to a request."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[:2] == ["schemas", "ids"] and len(parts) == 3 and parts[2].isdecimal():
            found = self.schemas.get(int(parts[2]))
            return (200, json.dumps(found).encode()) if found else missing(40403)
        if parts[0] == "subjects" and len(parts) == 4 and parts[2] == "versions":
            versions = self.subjects.get(parts[1])
            if versions is None:
                return missing(40401)
            version = len(versions) if parts[3] == "latest" else int(parts[3])
            if not 0 < version <= len(versions):
                return missing(40402)
            id_ = versions[version - 1]
            return 200, json.dumps(
                {"subject": parts[1], "version": version, "id": id_} | self.schemas[id_]
            ).encode()
        return missing(404)


def missing(code: int) -> Answer:
    """Returns the answer of a registry without the requested subject, schema or version."""
    return 404, json.dumps({"error_code": code, "message": "not found"}).encode()


def framed(id_: int, payload: bytes) -> bytes:
    """Returns a payload with the id of its schema in front."""
    return struct.pack(">bI", 0, id_) + payload


def written(schema: Any, record: Any, id_: int) -> bytes:
    """Returns a record in Avro, with the id of its schema in front."""
    data = BytesIO()
    fastavro.schemaless_writer(data, schema, record)
    return framed(id_, data.getvalue())


@contextmanager
def registry_server(context: ssl.SSLContext | None = None, port: int = 0) -> Iterator[RegistryServer]:
    """Runs a registry, with TLS if there is a context."""
    running = RegistryServer()

    class Handler(AnswerHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            running.asked.append((self.path, headers))
            self.send_answer(running.fault(self.path, headers) or running.answer(self.path))

    with QuietServer(("127.0.0.1", port), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "http" if context is None else "https"
        running.url = f"{scheme}://127.0.0.1:{server.server_port}"
        with serving(server):
            yield running
