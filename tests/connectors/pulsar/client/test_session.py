"""Files that options name and that cannot be used. pulsar-client would say that the server refused the credentials."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flip27_stream.connectors.pulsar.client.admin import topics_of
from flip27_stream.connectors.pulsar.client.session import shared_client, token_of
from flip27_stream.connectors.pulsar.options.connection_options import PulsarConnectionOptions
from flip27_stream.errors import OptionError

pytest.importorskip("pulsar")


@pytest.fixture(params=["missing", "binary", "empty"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file that has no text."""
    found = tmp_path / str(request.param)
    if request.param != "missing":
        found.write_bytes(b"\xff\xfe" if request.param == "binary" else b"\n")
    return found


@pytest.mark.parametrize("method", ["token", "oauth2", "tls"])
def test_a_file_with_credentials_is_named(file: Path, method: str) -> None:
    params = f"file://{file}"
    if method == "oauth2":
        params = json.dumps({"issuerUrl": "https://issuer", "privateKey": params})
    if method == "tls":
        params = f"tlsCertFile:{file},tlsKeyFile:{file}"
    options = PulsarConnectionOptions("pulsar://localhost:1", auth_method=method, auth_params=params)
    with pytest.raises(OptionError, match=rf"^(?!No client).*{file}") as refused:
        shared_client(options)
    assert "'pulsar.client.authParams'" in str(refused.value)


def test_a_file_without_the_credentials_of_a_client_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text('{"client_id": "s3cret"}')
    for text in (f"file:{tmp_path / 'key'}", str(tmp_path / "key")):
        params = json.dumps({"issuerUrl": "https://issuer", "privateKey": text})
        options = PulsarConnectionOptions("pulsar://localhost:1", auth_method="oauth2", auth_params=params)
        with pytest.raises(OptionError, match="client_id and client_secret") as refused:
            shared_client(options)
        assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("method", "name"), [("oauth2", "privateKey"), ("tls", "tlsCertFile"), ("tls", "tlsKeyFile")]
)
@pytest.mark.parametrize(
    "secret",
    [
        '{"client_id": "a", "client_secret": "s3cret"}',
        "-----BEGIN KEY-----\ns3cret",
        "/s3cret/" * 1000,
        "s3cret",
    ],
)
def test_credentials_in_place_of_a_path_are_not_shown(
    tmp_path: Path, method: str, name: str, secret: str
) -> None:
    (tmp_path / "file").write_text("certificate")
    given = dict.fromkeys(("issuerUrl", "privateKey", "tlsCertFile", "tlsKeyFile"), str(tmp_path / "file"))
    params = json.dumps({**given, name: secret})
    options = PulsarConnectionOptions("pulsar://localhost:1", auth_method=method, auth_params=params)
    with pytest.raises(OptionError, match="Give the absolute path of a file") as refused:
        shared_client(options)
    assert "s3cret" not in f"{refused.value}{refused.value.__cause__}"


def test_a_file_of_trusted_certificates_is_named(file: Path) -> None:
    """Both the brokers and the admin API are reached with it."""
    options = PulsarConnectionOptions(
        "pulsar+ssl://localhost:1", "https://localhost:1", tls_trust_certs=str(file)
    )
    for call in (lambda: shared_client(options), lambda: topics_of(options, "public/default")):
        with pytest.raises(OptionError, match=rf"{file}.*'pulsar\.client\.tlsTrustCertsFilePath'"):
            call()


def test_a_token_file_may_be_empty_while_it_is_written(tmp_path: Path) -> None:
    """The last token is used until the file has the next one."""
    from flip27_stream.connectors.pulsar.client.session import _TokenFile

    path = tmp_path / "token"
    path.write_text("first\n")
    token = _TokenFile(f"file:{path}")
    for written, expected in (("", "first"), ("second", "second")):
        path.write_text(written)
        assert token() == expected
    assert token_of(f"file:{path}") == "second"
