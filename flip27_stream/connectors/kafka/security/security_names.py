"""Java's settings for encryption and authentication (``kafka.security.protocol``, ``kafka.sasl.*``, ``kafka.ssl.*``).

No message of this module repeats a value that may hold a secret.
"""

from __future__ import annotations

from collections.abc import Callable
from ssl import TLSVersion

from flip27_stream.connectors.kafka.security.jaas import parse_jaas
from flip27_stream.connectors.kafka.security.key_stores import KeyStore, StoreType, TrustStore
from flip27_stream.connectors.kafka.security.security_options import SaslOptions, SecurityOptions, SslOptions
from flip27_stream.errors import OptionError
from flip27_stream.options.option_values import OptionValues

SECURITY_NAMES = (
    "kafka.security.protocol",
    "kafka.sasl.mechanism",
    "kafka.sasl.jaas.config",
    "kafka.ssl.truststore.location",
    "kafka.ssl.truststore.type",
    "kafka.ssl.truststore.password",
    "kafka.ssl.truststore.certificates",
    "kafka.ssl.keystore.location",
    "kafka.ssl.keystore.type",
    "kafka.ssl.keystore.password",
    "kafka.ssl.keystore.key",
    "kafka.ssl.keystore.certificate.chain",
    "kafka.ssl.key.password",
    "kafka.ssl.endpoint.identification.algorithm",
    "kafka.ssl.enabled.protocols",
    "kafka.ssl.protocol",
)

_PROTOCOLS = {p.lower(): p for p in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")}
_MECHANISMS = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
}
_VERSIONS = {"TLSv1.2": TLSVersion.TLSv1_2, "TLSv1.3": TLSVersion.TLSv1_3}
_TYPES = {kind.value.lower(): kind for kind in StoreType}


def parse_security(values: OptionValues, warn: Callable[[str, str], None]) -> SecurityOptions:
    """How connections are protected.

    Args:
        values: the options.
        warn: told the name of an option that has no effect, and why.

    Raises:
        OptionError: something is wrong, missing or cannot be kept.
    """
    protocol = values.one_of("kafka.security.protocol", "PLAINTEXT", _PROTOCOLS)
    uses = {"ssl": protocol.endswith("SSL"), "sasl": protocol.startswith("SASL")}
    for name in SECURITY_NAMES[1:]:
        if values.has(name) and not uses[name.split(".")[1]]:
            warn(name, f"kafka.security.protocol is {protocol}")
    return SecurityOptions(
        protocol,
        _ssl(values) if uses["ssl"] else None,
        _sasl(values, protocol) if uses["sasl"] else None,
    )


def _sasl(values: OptionValues, protocol: str) -> SaslOptions:
    mechanism = values.text("kafka.sasl.mechanism")
    allowed = f"Allowed: {', '.join(_MECHANISMS)}."
    if mechanism is None:
        raise OptionError(
            f"With option 'kafka.security.protocol' {protocol}, option 'kafka.sasl.mechanism' must be given "
            f"(Java's default, GSSAPI, is not supported). {allowed}"
        )
    mechanism = mechanism.strip()
    if mechanism not in _MECHANISMS:
        raise OptionError.of("kafka.sasl.mechanism", mechanism, f"This mechanism is not supported. {allowed}")
    text = values.text("kafka.sasl.jaas.config")
    if text is None:
        raise OptionError(
            f"With option 'kafka.security.protocol' {protocol}, option 'kafka.sasl.jaas.config' must be given, such as "
            f'org.apache.kafka.common.security...{_MECHANISMS[mechanism]} required username="..." password="..."; '
            "(a JAAS file of the Java process is not read)."
        )
    username, password = parse_jaas(text, mechanism, _MECHANISMS[mechanism])
    return SaslOptions(mechanism, username, password)


def _ssl(values: OptionValues) -> SslOptions:
    least, most = _versions(values)
    return SslOptions(_trust(values), _keys(values), _check_hostname(values), least, most)


def _check_hostname(values: OptionValues) -> bool:
    return values.one_of("kafka.ssl.endpoint.identification.algorithm", True, {"https": True, "": False})


def _versions(values: OptionValues) -> tuple[TLSVersion, TLSVersion]:
    enabled = values.text("kafka.ssl.enabled.protocols")
    names = list(_VERSIONS) if enabled is None else [name.strip() for name in enabled.split(",")]
    if not set(names) <= set(_VERSIONS):
        raise OptionError.of("kafka.ssl.enabled.protocols", enabled, f"Allowed: {', '.join(_VERSIONS)}.")
    single = values.text("kafka.ssl.protocol")
    single = "TLS" if single is None else single.strip()
    if single not in {*_VERSIONS, "TLS"}:
        raise OptionError.of("kafka.ssl.protocol", single, f"Allowed: {', '.join(_VERSIONS)}.")
    most = min(max(_VERSIONS[name] for name in names), _VERSIONS.get(single, TLSVersion.TLSv1_3))
    least = min(_VERSIONS[name] for name in names)
    if least > most:
        raise OptionError.of(
            "kafka.ssl.protocol", single, "It is not among those of 'kafka.ssl.enabled.protocols'."
        )
    return least, most


def _trust(values: OptionValues) -> TrustStore | None:
    location, pem = _one_place(values, "kafka.ssl.truststore.location", "kafka.ssl.truststore.certificates")
    password = values.text("kafka.ssl.truststore.password")
    kind = _store_type(values, "kafka.ssl.truststore.type", "kafka.ssl.truststore.certificates")
    if location is None and pem is None:
        _refuse_without_store(values, ("kafka.ssl.truststore.password",), "kafka.ssl.truststore.location")
        return None
    if kind is StoreType.PEM and password is not None:
        raise OptionError(
            "Option 'kafka.ssl.truststore.password' cannot be given for a trust store of type PEM."
        )
    return TrustStore(kind, location, password, pem)


def _keys(values: OptionValues) -> KeyStore | None:
    location, key = _one_place(values, "kafka.ssl.keystore.location", "kafka.ssl.keystore.key")
    chain = values.text("kafka.ssl.keystore.certificate.chain")
    password = values.text("kafka.ssl.keystore.password")
    if (key is None) != (chain is None):
        raise OptionError(
            "Options 'kafka.ssl.keystore.key' and 'kafka.ssl.keystore.certificate.chain' must be given together."
        )
    kind = _store_type(values, "kafka.ssl.keystore.type", "kafka.ssl.keystore.key")
    if location is None and key is None:
        names = ("kafka.ssl.keystore.password", "kafka.ssl.key.password")
        _refuse_without_store(values, names, "kafka.ssl.keystore.location")
        return None
    if kind is StoreType.PEM and password is not None:
        raise OptionError(
            "Option 'kafka.ssl.keystore.password' cannot be given for a key store of type PEM; "
            "'kafka.ssl.key.password' decrypts its key."
        )
    if kind is not StoreType.PEM and password is None:
        raise OptionError(f"A key store of type {kind.value} needs option 'kafka.ssl.keystore.password'.")
    return KeyStore(kind, location, password, key, chain, values.text("kafka.ssl.key.password"))


def _one_place(values: OptionValues, location: str, pem: str) -> tuple[str | None, str | None]:
    if values.has(location) and values.has(pem):
        raise OptionError(f"Options '{location}' and '{pem}' cannot be given together.")
    path = values.text(location)
    if path is not None and "-----BEGIN " in path:
        raise OptionError(f"Option '{location}' must be a path; PEM text goes into option '{pem}'.")
    return path, values.text(pem)


def _store_type(values: OptionValues, name: str, pem: str) -> StoreType:
    """JKS where it is not given, as in Java."""
    kind = values.one_of(name, StoreType.JKS, _TYPES)
    if values.has(pem) and kind is not StoreType.PEM:
        raise OptionError(f"Option '{pem}' needs option '{name}' to be PEM; it is {kind.value}.")
    return kind


def _refuse_without_store(values: OptionValues, names: tuple[str, ...], location: str) -> None:
    for name in names:
        if values.has(name):
            raise OptionError(f"Option '{name}' is given, but not '{location}'.")
