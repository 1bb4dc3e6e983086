"""Without a package that only some queries and tools need, the error names the extra that installs it."""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

import watermark_alignment
from flip27_stream.connectors.kafka.source import KafkaSourceFactory
from flip27_stream.connectors.kafka.tls.key_stores import KeyStore, StoreType, TrustStore
from flip27_stream.connectors.kafka.tls.ssl_options import SslOptions
from flip27_stream.errors import MissingExtraError

ROOT = Path(__file__).parents[1]
KAFKA = {"kafka.bootstrap.servers": "there:1", "subscribe": "clicks"}
AVRO = {"value.format": "avro", "value.avro.schema": '{"type":"record","name":"r","fields":[]}'}

OPTIONAL = {
    "boto3": "aws",
    "gssapi": "kerberos",
    "fastavro": "avro",
    "cryptography": "keystores",
    "matplotlib": "monitoring",
    "rich": "monitoring",
    "pulsar-client": "pulsar",
    "pybase64": "kinesis",
    "prometheus_client": "prometheus",
    "opentelemetry-sdk": "opentelemetry",
}


def test_each_optional_package_is_in_its_extra_and_not_in_the_core() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = setup["options.extras_require"]
    for package, extra in OPTIONAL.items():
        assert package in extras[extra].split()
        assert package not in setup["options"]["install_requires"]


def test_avro_names_its_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(
        MissingExtraError, match=r"'value.format' avro .* pip install 'flip27-stream\[avro\]'"
    ):
        KafkaSourceFactory().check({**KAFKA, **AVRO})


def test_key_stores_name_their_missing_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    (tmp_path / "store").write_bytes(b"0")
    for ssl in (
        SslOptions(keys=KeyStore(StoreType.JKS, str(tmp_path / "store"), "hush-hush")),
        SslOptions(trust=TrustStore(StoreType.PKCS12, str(tmp_path / "store"), "hush-hush")),
    ):
        with pytest.raises(MissingExtraError, match=r"flip27-stream\[keystores\]") as error:
            ssl.context()
        assert "hush-hush" not in str(error.value)


def test_a_plot_names_its_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"plot\(\) .* 'flip27-stream\[monitoring\]'"):
        watermark_alignment.plot("nowhere")


def test_exports_of_metrics_name_their_missing_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listener = watermark_alignment.StatusListener(str(tmp_path))
    for package in ("prometheus_client", "opentelemetry"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"serve_prometheus\(\) .* 'flip27-stream\[prometheus\]'"):
        listener.serve_prometheus(0, "127.0.0.1")
    with pytest.raises(
        MissingExtraError, match=r"export_opentelemetry\(\) .* 'flip27-stream\[opentelemetry\]'"
    ):
        listener.export_opentelemetry()


@pytest.mark.parametrize("module", ["watermark_alignment", "flip27_stream.demo"])
def test_the_terminal_view_names_its_missing_package(module: str) -> None:
    without = (
        f"import runpy, sys; sys.modules['rich'] = None; runpy.run_module({module!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", without], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("pip install 'flip27-stream[monitoring]'")
