"""The client of schema registries: its requests, and registries that fail, are silent or give wrong answers."""

from __future__ import annotations

import base64
import pickle
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from itertools import chain, repeat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from flip27_stream.connectors.kafka.schema_registry.credentials import FixedCredentials, RenewedToken
from flip27_stream.connectors.kafka.schema_registry.registered_schemas import latest_schema
from flip27_stream.connectors.kafka.schema_registry.registry import SchemaRegistry, UnknownSchemaError
from flip27_stream.connectors.kafka.tls.key_stores import StoreType, TrustStore
from flip27_stream.connectors.kafka.tokens.token_function import TokenFunction
from flip27_stream.errors import AuthenticationError, ConnectorError, OptionError, UnreachableError
from tests.connectors.kafka.support.registry_server import RegistryServer, missing, registry_server

SECRET = "hush-hush/&"
SCHEMA = {"type": "record", "name": "R", "fields": []}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as running:
        running.register("a-value", SCHEMA)
        yield running


def registry(server: RegistryServer, timeout_ms: int = 20_000, **more: object) -> SchemaRegistry:
    made = SchemaRegistry((server.url,), timeout_ms=timeout_ms, **more)  # type: ignore[arg-type]
    copy: SchemaRegistry = pickle.loads(pickle.dumps(made))
    assert copy == made
    assert hash(copy) == hash(made)
    return copy


def test_requests_have_the_path_and_headers_of_the_options(server: RegistryServer) -> None:
    headers = (("target-sr-cluster", "lsrc-1"),)
    credentials = FixedCredentials.basic(f"me:{SECRET}")
    asking = registry(server, credentials=credentials, headers=headers)
    assert asking.get("schemas", "ids", "1")["schema"]
    assert latest_schema(asking, "a-value").text
    (path, sent), (latest, _) = server.asked
    assert (path, latest) == ("/schemas/ids/1", "/subjects/a-value/versions/latest")
    assert sent["authorization"] == "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert sent["target-sr-cluster"] == "lsrc-1"
    assert SECRET not in repr(asking)
    registry(server, credentials=FixedCredentials.bearer("abc")).get("schemas", "ids", "1")
    assert server.asked[-1][1]["authorization"] == "Bearer abc"
    assert "abc" not in repr(FixedCredentials.bearer("abc"))


def test_names_of_subjects_are_quoted(server: RegistryServer) -> None:
    server.register(":.lab:a/b c", SCHEMA)
    assert latest_schema(registry(server), ":.lab:a/b c").type == "AVRO"
    assert server.paths == ["/subjects/%3A.lab%3Aa%2Fb%20c/versions/latest"]


TOKENS: list[str] = []


def next_token() -> tuple[str, float]:
    return TOKENS.pop(0), 2e9


def test_a_token_is_kept_until_it_is_refused(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that is refused long after it was fetched was revoked, and is replaced. A token that was
    just fetched is wrong.
    """
    from flip27_stream.connectors.kafka.schema_registry import credentials
    from flip27_stream.connectors.kafka.tokens.token_cache import TokenCache

    now = [1e9]
    monkeypatch.setattr(credentials, "TOKENS", TokenCache(lambda: now[0]))
    TOKENS[:] = ["first", "second", "third"]
    asking = registry(server, credentials=RenewedToken(TokenFunction(f"{__name__}:next_token"), "an option"))
    server.fault = lambda _, sent: None if sent["authorization"] != "Bearer bad" else (401, b"")
    asking.get("schemas", "ids", "1")
    asking.get("schemas", "ids", "1")
    now[0] += 100
    server.fault = lambda _, sent: None if sent["authorization"] == "Bearer second" else (401, b"")
    asking.get("schemas", "ids", "1")
    sent = [headers["authorization"] for _, headers in server.asked]
    assert sent == ["Bearer first", "Bearer first", "Bearer first", "Bearer second"]
    server.fault = lambda *_: (401, b"")
    with pytest.raises(AuthenticationError, match="with 401"):
        asking.get("schemas", "ids", "1")
    assert TOKENS == ["third"]


def test_a_token_that_does_not_fit_a_header_is_not_shown(server: RegistryServer) -> None:
    TOKENS[:] = ["se\ncret"]
    asking = registry(
        server, credentials=RenewedToken(TokenFunction(f"{__name__}:next_token", "x"), "an.option")
    )
    with pytest.raises(AuthenticationError, match=r"'an\.option'") as error:
        asking.get("schemas", "ids", "1")
    assert "cret" not in str(error.value)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_registry_that_answers_with_a_server_error_is_asked_again(
    server: RegistryServer, status: int
) -> None:
    faults = chain([(status, b"")] * 2, repeat(None))
    server.fault = lambda *_: next(faults)
    assert registry(server).get("schemas", "ids", "1")["schema"]
    assert len(server.asked) == 3


def test_the_next_server_is_asked_where_one_fails(server: RegistryServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = f"http://127.0.0.1:{closed.getsockname()[1]}"
    found = SchemaRegistry((gone, server.url)).get("schemas", "ids", "1")
    assert found["schema"]


def test_a_registry_that_is_down_fails_in_bounded_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(UnreachableError, match=rf"within 300 ms .* {gone}/schemas/ids/1: .*refused"):
        SchemaRegistry((gone,), timeout_ms=300).get("schemas", "ids", "1")


def test_a_silent_registry_fails_in_bounded_time(server: RegistryServer) -> None:
    answering = threading.Event()

    def wait(*_: object) -> None:
        answering.wait(60)

    server.fault = wait
    try:
        with pytest.raises(UnreachableError, match=r"within 300 ms .*timed out"):
            registry(server, timeout_ms=300).get("schemas", "ids", "1")
    finally:
        answering.set()


@pytest.mark.parametrize(
    ("code", "body", "kind", "why"),
    [
        (401, SECRET.encode(), AuthenticationError, "basic.auth.user.info"),
        (403, SECRET.encode(), AuthenticationError, "the user may read it"),
        (404, b"<html>", ConnectorError, "answers 404, which a schema registry does not"),
        (404, b"[]", ConnectorError, "answers 404, which a schema registry does not"),
        (404, missing(404)[1], ConnectorError, "answers 404, which a schema registry does not"),
        (404, missing(40403)[1], UnknownSchemaError, "requested schema"),
        (404, missing(40401)[1], UnknownSchemaError, "requested subject"),
        (302, b"", OptionError, "redirects"),
        (422, SECRET.encode(), ConnectorError, "answers 422"),
        (200, b"<html>", ConnectorError, "has no 'schema'"),
        (200, b'{"schema": 7}', ConnectorError, "has no 'schema'"),
        (200, b"[" * 100_000, ConnectorError, "has no 'schema'"),
    ],
)
def test_an_error_that_lasts_is_not_tried_again(
    server: RegistryServer, code: int, body: bytes, kind: type[Exception], why: str
) -> None:
    server.fault = lambda *_: (code, body, {"Location": "http://127.0.0.1:1/"})
    with pytest.raises(kind, match=why) as error:
        registry(server, credentials=FixedCredentials.basic(f"me:{SECRET}")).get("schemas", "ids", "1")
    assert SECRET not in str(error.value)
    assert len(server.asked) == 1


def test_malformed_and_circular_references_are_refused(server: RegistryServer) -> None:
    server.register("circle", SCHEMA, references=[("x", "circle", 1)])
    assert len(latest_schema(registry(server), "circle").references) == 1
    server.schemas[1]["references"] = [{"name": "x"}]
    with pytest.raises(ConnectorError, match="without 'subject' and 'version'"):
        latest_schema(registry(server), "a-value")
    for wrong in (5, True, "x", {"name": "x"}):
        server.schemas[1]["references"] = wrong
        with pytest.raises(ConnectorError, match=f"{server.url} has 'references' that are not a list"):
            latest_schema(registry(server), "a-value")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The paths of a certificate for 127.0.0.1 and of its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    at = tmp_path_factory.mktemp("registry")
    (at / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (at / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return at / "cert.pem", at / "key.pem"


def test_the_certificate_of_a_registry_is_checked(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    prefix = "value.schema.registry."
    with registry_server(context) as server:
        server.register("a-value", SCHEMA)
        for trust in (
            TrustStore(StoreType.PEM, str(certificate[0]), prefix=prefix),
            TrustStore(StoreType.PEM, certificates=certificate[0].read_text(), prefix=prefix),
        ):
            assert registry(server, trust=trust).get("schemas", "ids", "1")["schema"]
        with pytest.raises(AuthenticationError, match=rf"not trusted: .*'{prefix}ssl.truststore.location'"):
            registry(server).get("schemas", "ids", "1")
        lost = TrustStore(StoreType.PEM, "/does/not/exist.pem", prefix=prefix)
        with pytest.raises(OptionError, match=rf"'{prefix}ssl.truststore.location'"):
            registry(server, trust=lost).get("schemas", "ids", "1")
