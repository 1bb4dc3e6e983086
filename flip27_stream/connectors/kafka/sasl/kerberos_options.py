"""Java's settings for SASL/GSSAPI (``kafka.sasl.kerberos.service.name`` and the options of ``Krb5LoginModule``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flip27_stream.connectors.kafka.sasl.jaas import parse_jaas
from flip27_stream.connectors.kafka.sasl.kerberos import Kerberos
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import any_text
from flip27_stream.options.option import Option

_JAAS: Final = "kafka.sasl.jaas.config"
_MODULE: Final = "Krb5LoginModule"
_USED: Final = ("useKeyTab", "keyTab", "principal", "useTicketCache", "ticketCache", "serviceName")
_WITHOUT_EFFECT: Final = (
    "clearPass",
    "client",
    "debug",
    "doNotPrompt",
    "isInitiator",
    "refreshKrb5Config",
    "renewTGT",
    "renewTicket",
    "storeKey",
    "storePass",
    "tryFirstPass",
    "useFirstPass",
)
"""Options of the login module whose work the Kerberos library does, or that concern Java only.

Java's module does not know ``client`` and ``renewTicket``. They are in examples of distributions, and it ignores them.
"""

SERVICE_NAME: Final = Option(
    "kafka.sasl.kerberos.service.name",
    any_text(),
    None,
    "First part of the brokers' Kerberos principals, such as `kafka`. Required with mechanism GSSAPI, unless the login "
    "module has `serviceName`.",
)

KERBEROS_OPTIONS: Final[tuple[Option[Any], ...]] = (SERVICE_NAME,)


def parse_kerberos(options: Mapping[str, str], jaas: str | None) -> Kerberos:
    """Returns the credentials of mechanism GSSAPI.

    Args:
        options: The options of the query, by their names in lower case.
        jaas: The text of ``kafka.sasl.jaas.config``; ``None`` if it is not given, which means the ticket cache.

    Raises:
        OptionError: A value is wrong, missing or not supported.
    """
    given = {"useTicketCache": "true"} if jaas is None else parse_jaas(jaas, Kerberos.mechanism, _MODULE)
    for name in given:
        if name not in (*_USED, *_WITHOUT_EFFECT):
            raise OptionError(
                f"Option '{_JAAS}' sets {name}, which is not supported. Allowed: {', '.join(_USED)}."
            )
    service, principal = _service(options, given), given.get("principal") or None
    if _is_true(given, "useKeyTab"):
        keytab = given.get("keyTab", "").removeprefix("file:").removeprefix("FILE:")
        if not keytab or principal is None:
            raise OptionError(f"With useKeyTab=\"true\", option '{_JAAS}' must set keyTab and principal.")
        return Kerberos(service, principal, keytab)
    if not _is_true(given, "useTicketCache"):
        raise OptionError(
            f'Option \'{_JAAS}\' must set useKeyTab="true" with keyTab and principal, or useTicketCache="true": no '
            "password is asked for."
        )
    cache = given.get("ticketCache", "").removeprefix("file:").removeprefix("FILE:")
    return Kerberos(service, principal, ticket_cache=cache or None)


def _service(options: Mapping[str, str], given: Mapping[str, str]) -> str:
    named = {name.strip() for name in (SERVICE_NAME.text(options), given.get("serviceName")) if name}
    if len(named) > 1:
        raise OptionError(
            f"Options '{SERVICE_NAME.name}' and '{_JAAS}' name two services: {' and '.join(sorted(named))}."
        )
    if not named or "/" in (service := named.pop()) or "@" in service:
        raise OptionError(
            f"With option 'kafka.sasl.mechanism' GSSAPI (which is the default), option '{SERVICE_NAME.name}' must be "
            "the first part of the brokers' Kerberos principals, such as kafka."
        )
    return service


def _is_true(given: Mapping[str, str], name: str) -> bool:
    return given.get(name, "false").lower() == "true"
