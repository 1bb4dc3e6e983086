"""Java's settings of encryption and authentication (``kafka.security.protocol``, ``kafka.sasl.*``, ``kafka.ssl.*``).

No message of this module repeats a value that may have a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ssl import TLSVersion
from typing import Any, Final

from flip27_stream.connectors.kafka.security.jaas import parse_password
from flip27_stream.connectors.kafka.security.kerberos import Kerberos
from flip27_stream.connectors.kafka.security.kerberos_options import KERBEROS_OPTIONS, parse_kerberos
from flip27_stream.connectors.kafka.security.key_stores import KeyStore, StoreType, TrustStore
from flip27_stream.connectors.kafka.security.msk_iam import CLIENT_HANDLER, MskIam, parse_msk_iam
from flip27_stream.connectors.kafka.security.oauth_options import OAUTH_OPTIONS, parse_oauth
from flip27_stream.connectors.kafka.security.security_options import (
    SaslCredentials,
    SaslOptions,
    SecurityOptions,
    SslOptions,
)
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import any_text, one_of, words
from flip27_stream.options.option import Option

_MECHANISMS = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
}
_OAUTHBEARER = "OAUTHBEARER"
_OWN_OPTIONS: Final[dict[str, tuple[Option[Any], ...]]] = {
    Kerberos.mechanism: KERBEROS_OPTIONS,
    _OAUTHBEARER: OAUTH_OPTIONS,
    MskIam.mechanism: (CLIENT_HANDLER,),
}
"""The options that only one mechanism uses."""
_VERSIONS = {"TLSv1.2": TLSVersion.TLSv1_2, "TLSv1.3": TLSVersion.TLSv1_3}
_STORE_TYPE: Final = one_of({kind.value: kind for kind in StoreType})

PROTOCOL: Final = Option(
    "kafka.security.protocol",
    words("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "PLAINTEXT",
    "Whether connections are encrypted, and whether users log in.",
)
MECHANISM: Final = Option(
    "kafka.sasl.mechanism",
    any_text("`GSSAPI`, `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER` or `AWS_MSK_IAM`"),
    "GSSAPI",
    "How users log in. GSSAPI is Kerberos, and needs the extra `kerberos`.",
)
JAAS: Final = Option(
    "kafka.sasl.jaas.config",
    any_text("one login module, as for Java"),
    None,
    "User name and password, client id and secret, or keytab and principal. Required with SASL, unless other options "
    "give these.",
    secret=True,
)
TRUST_LOCATION: Final = Option(
    "kafka.ssl.truststore.location",
    any_text("path"),
    None,
    "Certificates to trust; by default those this machine trusts. Files must be there on the driver and on "
    "the executors.",
)
TRUST_TYPE: Final = Option(
    "kafka.ssl.truststore.type",
    _STORE_TYPE,
    None,
    "Format of the trust store. A file that is said to be JKS may in fact be PKCS12, as in Java.",
)
TRUST_PASSWORD: Final = Option(
    "kafka.ssl.truststore.password",
    any_text(),
    None,
    "Password of the trust store. Not allowed for PEM.",
    secret=True,
)
TRUST_CERTIFICATES: Final = Option(
    "kafka.ssl.truststore.certificates",
    any_text("PEM"),
    None,
    "Certificates in place of a file, with type PEM.",
)
KEY_STORE_LOCATION: Final = Option(
    "kafka.ssl.keystore.location",
    any_text("path"),
    None,
    "Key and certificate of this client, if brokers ask for one.",
)
KEY_STORE_TYPE: Final = Option(
    "kafka.ssl.keystore.type",
    _STORE_TYPE,
    None,
    "Format of the key store; see the trust store.",
)
KEY_STORE_PASSWORD: Final = Option(
    "kafka.ssl.keystore.password",
    any_text(),
    None,
    "Password of the key store. Required for JKS and PKCS12, not allowed for PEM.",
    secret=True,
)
KEY: Final = Option(
    "kafka.ssl.keystore.key",
    any_text("PEM (PKCS #8)"),
    None,
    "The key in place of a file, with type PEM.",
    secret=True,
)
CERTIFICATE_CHAIN: Final = Option(
    "kafka.ssl.keystore.certificate.chain",
    any_text("PEM"),
    None,
    "The certificate of that key, and those that signed it.",
)
KEY_PASSWORD: Final = Option(
    "kafka.ssl.key.password",
    any_text(),
    None,
    "Password of the key, if it has one of its own.",
    secret=True,
)
CHECK_HOSTNAME: Final = Option(
    "kafka.ssl.endpoint.identification.algorithm",
    one_of({"https": True, "": False}, "`https` or empty"),
    "https",
    "A broker's certificate must name its host. Empty: it need not.",
)
ENABLED_PROTOCOLS: Final = Option(
    "kafka.ssl.enabled.protocols",
    any_text("`TLSv1.2`, `TLSv1.3`, or both with a comma between"),
    "TLSv1.2,TLSv1.3",
    "The versions of TLS that may be used.",
)
TLS_PROTOCOL: Final = Option(
    "kafka.ssl.protocol",
    any_text("`TLSv1.2` or `TLSv1.3`"),
    None,
    "The newest version of TLS.",
)

SECURITY_OPTIONS: Final[tuple[Option[Any], ...]] = (
    PROTOCOL,
    MECHANISM,
    JAAS,
    *OAUTH_OPTIONS,
    CLIENT_HANDLER,
    *KERBEROS_OPTIONS,
    TRUST_LOCATION,
    TRUST_TYPE,
    TRUST_PASSWORD,
    TRUST_CERTIFICATES,
    KEY_STORE_LOCATION,
    KEY_STORE_TYPE,
    KEY_STORE_PASSWORD,
    KEY,
    CERTIFICATE_CHAIN,
    KEY_PASSWORD,
    CHECK_HOSTNAME,
    ENABLED_PROTOCOLS,
    TLS_PROTOCOL,
)


def parse_security(options: Mapping[str, str], warn: Callable[[str, str], None]) -> SecurityOptions:
    """Returns the options of encryption and authentication.

    Args:
        options: the options of the query, by their names in lower case.
        warn: is called with the name of each option that has no effect, and the reason.

    Raises:
        OptionError: a value is wrong, missing or not supported.
    """
    protocol = PROTOCOL.require(options)
    uses = {"ssl": protocol.endswith("SSL"), "sasl": protocol.startswith("SASL")}
    for option in SECURITY_OPTIONS[1:]:
        if option.is_given(options) and not uses[option.name.split(".")[1]]:
            warn(option.name, f"kafka.security.protocol is {protocol}")
    return SecurityOptions(
        protocol,
        _ssl(options) if uses["ssl"] else None,
        _sasl(options, protocol, warn) if uses["sasl"] else None,
    )


def _sasl(options: Mapping[str, str], protocol: str, warn: Callable[[str, str], None]) -> SaslCredentials:
    mechanism, text = MECHANISM.require(options).strip(), JAAS.text(options)
    for owner, owned in _OWN_OPTIONS.items():
        for option in owned:
            if owner != mechanism and option.is_given(options):
                warn(option.name, f"kafka.sasl.mechanism is {mechanism}")
    if mechanism == Kerberos.mechanism:
        return parse_kerberos(options, text)
    if mechanism == _OAUTHBEARER:
        return parse_oauth(options, text)
    if mechanism == MskIam.mechanism:
        return parse_msk_iam(options, text, protocol)
    if mechanism not in _MECHANISMS:
        allowed = ", ".join((*_MECHANISMS, *_OWN_OPTIONS))
        raise OptionError.of(
            "kafka.sasl.mechanism", mechanism, f"This mechanism is not supported. Allowed: {allowed}."
        )
    if text is None:
        raise OptionError(
            f"With option 'kafka.security.protocol' {protocol}, option 'kafka.sasl.jaas.config' must be given, such as "
            f'org.apache.kafka.common.security...{_MECHANISMS[mechanism]} required username="..." password="..."; '
            "(a JAAS file of the Java process is not read)."
        )
    username, password = parse_password(text, mechanism, _MECHANISMS[mechanism])
    return SaslOptions(mechanism, username, password)


def _ssl(options: Mapping[str, str]) -> SslOptions:
    least, most = _versions(options)
    return SslOptions(_trust(options), _keys(options), _check_hostname(options), least, most)


def _check_hostname(options: Mapping[str, str]) -> bool:
    return CHECK_HOSTNAME.require(options)


def _versions(options: Mapping[str, str]) -> tuple[TLSVersion, TLSVersion]:
    enabled = ENABLED_PROTOCOLS.text(options)
    names = list(_VERSIONS) if enabled is None else [name.strip() for name in enabled.split(",")]
    if not set(names) <= set(_VERSIONS):
        raise OptionError.of("kafka.ssl.enabled.protocols", enabled, f"Allowed: {', '.join(_VERSIONS)}.")
    single = TLS_PROTOCOL.text(options)
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


def _trust(options: Mapping[str, str]) -> TrustStore | None:
    location, pem = _one_place(options, TRUST_LOCATION, TRUST_CERTIFICATES)
    password = TRUST_PASSWORD.text(options)
    kind = _store_type(options, TRUST_TYPE, TRUST_CERTIFICATES)
    if location is None and pem is None:
        _refuse_without_store(options, (TRUST_PASSWORD,), TRUST_LOCATION)
        return None
    if kind is StoreType.PEM and password is not None:
        raise OptionError(
            "Option 'kafka.ssl.truststore.password' cannot be given for a trust store of type PEM."
        )
    return TrustStore(kind, location, password, pem)


def _keys(options: Mapping[str, str]) -> KeyStore | None:
    location, key = _one_place(options, KEY_STORE_LOCATION, KEY)
    chain = CERTIFICATE_CHAIN.text(options)
    password = KEY_STORE_PASSWORD.text(options)
    if (key is None) != (chain is None):
        raise OptionError(
            "Options 'kafka.ssl.keystore.key' and 'kafka.ssl.keystore.certificate.chain' must be given together."
        )
    kind = _store_type(options, KEY_STORE_TYPE, KEY)
    if location is None and key is None:
        _refuse_without_store(options, (KEY_STORE_PASSWORD, KEY_PASSWORD), KEY_STORE_LOCATION)
        return None
    if kind is StoreType.PEM and password is not None:
        raise OptionError(
            "Option 'kafka.ssl.keystore.password' cannot be given for a key store of type PEM; "
            "'kafka.ssl.key.password' decrypts its key."
        )
    if kind is not StoreType.PEM and password is None:
        raise OptionError(f"A key store of type {kind.value} needs option 'kafka.ssl.keystore.password'.")
    return KeyStore(kind, location, password, key, chain, KEY_PASSWORD.text(options))


def _one_place(
    options: Mapping[str, str], location: Option[str], pem: Option[str]
) -> tuple[str | None, str | None]:
    if location.is_given(options) and pem.is_given(options):
        raise OptionError(f"Options '{location.name}' and '{pem.name}' cannot be given together.")
    path = location.text(options)
    if path is not None and "-----BEGIN " in path:
        raise OptionError(f"Option '{location.name}' must be a path; PEM text goes into option '{pem.name}'.")
    return path, pem.text(options)


def _store_type(options: Mapping[str, str], type_: Option[StoreType], pem: Option[str]) -> StoreType:
    """Returns the format of a store, which is JKS by default, as in Java."""
    kind = type_.get(options) or StoreType.JKS
    if pem.is_given(options) and kind is not StoreType.PEM:
        raise OptionError(f"Option '{pem.name}' needs option '{type_.name}' to be PEM; it is {kind.value}.")
    return kind


def _refuse_without_store(
    options: Mapping[str, str], given: tuple[Option[str], ...], location: Option[str]
) -> None:
    for option in given:
        if option.is_given(options):
            raise OptionError(f"Option '{option.name}' is given, but not '{location.name}'.")
