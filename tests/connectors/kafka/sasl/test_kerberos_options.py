"""The options of SASL/GSSAPI are parsed. The tests need neither a JVM nor Kerberos."""

from __future__ import annotations

import logging
import pickle
import re
import sys

import pytest

from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.connectors.kafka.sasl.kerberos import Kerberos, Tickets
from flip27_stream.errors import MissingExtraError, OptionError

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
KEYTAB = f'{MODULE} useKeyTab=true storeKey=true keyTab="/keys/alice" principal="alice@EXAMPLE.COM";'
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
ALICE = Kerberos("kafka", "alice@EXAMPLE.COM", "/keys/alice")


def parse(settings: dict[str, str]) -> object:
    given = {"kafka.bootstrap.servers": "there:1", "subscribe": "clicks"}
    options = parse_kafka_options(given | {f"kafka.{name}": value for name, value in settings.items()})
    return options.connection.security.sasl


@pytest.mark.parametrize(
    ("jaas", "expected"),
    [
        (KEYTAB, ALICE),
        (KEYTAB.replace("/keys", "file:/keys"), ALICE),
        (f'{MODULE} useTicketCache="true";', Kerberos("kafka")),
        (
            f'{MODULE} useTicketCache=true renewTGT=true ticketCache="/tickets" principal="alice";',
            Kerberos("kafka", "alice", ticket_cache="/tickets"),
        ),
        (None, Kerberos("kafka")),
        (f'{MODULE} useTicketCache=true renewTicket=true serviceName="kafka";', Kerberos("kafka")),
    ],
)
def test_settings_of_java_are_parsed(jaas: str | None, expected: Kerberos) -> None:
    """The values survive pickling, as on the way to a worker, and are hashable, as keys of a pool."""
    found = parse({**SASL, **({} if jaas is None else {"sasl.jaas.config": jaas})})

    assert found == expected
    assert hash(pickle.loads(pickle.dumps(found))) == hash(expected)


def test_kerberos_is_the_default_mechanism_as_in_java() -> None:
    without = {name: value for name, value in SASL.items() if name != "sasl.mechanism"}

    assert parse({**without, "sasl.jaas.config": KEYTAB}) == ALICE


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sasl.kerberos.service.name": "kafka/there"}, "must be the first part of the brokers' Kerberos principals"),
        ({"sasl.jaas.config": f'{MODULE} serviceName="other" useTicketCache=true;'}, "services: kafka and other"),
        ({"sasl.jaas.config": f"{MODULE} useKeyTab=true principal=alice;"}, "must set keyTab and principal"),
        ({"sasl.jaas.config": f"{MODULE} useKeyTab=true keyTab=there;"}, "must set keyTab and principal"),
        ({"sasl.jaas.config": f"{MODULE} keyTab=there;"}, "no password is asked for"),
        ({"sasl.jaas.config": f"{MODULE} useTicketCache=true usefirstpass=true;"}, "sets usefirstpass, which is not"),
        ({"sasl.jaas.config": "x.PlainLoginModule required username=u password=hush;"}, "needs Krb5LoginModule"),
        ({"sasl.jaas.config": "Krb5LoginModule"}, "not of the form: <package>.Krb5LoginModule required name="),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(changed: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        parse({**SASL, **changed})


def test_the_service_is_required() -> None:
    with pytest.raises(
        OptionError, match=r"option 'kafka\.sasl\.kerberos\.service\.name' must be the first part"
    ):
        parse({"security.protocol": "SASL_SSL", "sasl.jaas.config": KEYTAB})


def test_settings_of_java_s_own_login_have_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        parse({**SASL, "sasl.kerberos.kinit.cmd": "/usr/bin/kinit", "sasl.oauthbearer.scope": "x"})

    assert "'kafka.sasl.kerberos.kinit.cmd'" in caplog.text
    assert "kafka.sasl.mechanism is GSSAPI" in caplog.text


def test_the_package_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(MissingExtraError, match=r"SASL/GSSAPI .* pip install 'flip27-stream\[kerberos\]'"):
        ALICE.exchange("there")


def test_a_ticket_that_a_broker_accepted_before_is_tried_again() -> None:
    tickets = Tickets()
    first = tickets.cache(ALICE)
    assert tickets.cache(ALICE) == first
    assert not tickets.drop(ALICE, first)

    second = tickets.cache(ALICE)
    tickets.accepted(ALICE, first)
    assert not tickets.drop(ALICE, second), "the broker accepted other tickets"

    third = tickets.cache(ALICE)
    tickets.accepted(ALICE, third)
    assert tickets.drop(ALICE, third)
    assert len({first, second, third, tickets.cache(ALICE)}) == 4


def test_tickets_that_several_brokers_refuse_at_once_are_renewed_once() -> None:
    """Each connection may try again, and the new tickets are kept."""
    tickets = Tickets()
    old = tickets.cache(ALICE)
    tickets.accepted(ALICE, old)
    assert tickets.drop(ALICE, old)
    assert tickets.drop(ALICE, old)
    new = tickets.cache(ALICE)
    assert tickets.drop(ALICE, old)
    assert tickets.cache(ALICE) == new
    assert not tickets.drop(ALICE, new)


class NoTicketError(Exception):
    """A stand-in for the error of gssapi, which is not installed everywhere."""

    min_code = 0


@pytest.mark.parametrize(
    ("kerberos", "message"),
    [
        (
            ALICE,
            "of alice@EXAMPLE.COM for kafka/there was found in the keytab /keys/alice: expired.",
        ),
        (
            Kerberos("kafka", ticket_cache="/tickets"),
            "of the client for kafka/there was found in ticket cache /tickets: expired.",
        ),
    ],
)
def test_a_missing_ticket_is_named_with_its_place(kerberos: Kerberos, message: str) -> None:
    """``test_kerberos.py``, which needs gssapi, has the same messages from a real KDC."""
    assert str(kerberos._refusal(NoTicketError("expired"), "there")).startswith(
        f"No Kerberos ticket {message}"
    )
