"""A certificate of fake brokers that encrypt their connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.certificates import make_certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls") / "broker.pem")
