"""Java's settings of encryption and authentication (``kafka.security.protocol``, ``kafka.sasl.*``, ``kafka.ssl.*``).

No message of this module repeats a value that may have a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ssl import TLSVersion
from typing import Any, Final

from flip27_stream.connectors.kafka.sasl.jaas import parse_password
from flip27_stream.connectors.kafka.sasl.java_classes import bare_name
from flip27_stream.connectors.kafka.sasl.kerberos import Kerberos
from flip27_stream.connectors.kafka.sasl.kerberos_options import KERBEROS_OPTIONS, parse_kerberos
from flip27_stream.connectors.kafka.sasl.msk_iam import (
    CLIENT_HANDLER,
    CLIENT_HANDLER_CLASS,
    MskIam,
    parse_msk_iam,
)
from flip27_stream.connectors.kafka.sasl.oauth_options import (
    HANDLER,
    HANDLER_CLASSES,
    OAUTH_OPTIONS,
    parse_oauth,
)
from flip27_stream.connectors.kafka.sasl.sasl_credentials import PasswordCredentials, SaslCredentials
from flip27_stream.connectors.kafka.sasl.service_credential import parse_service_credential
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.connectors.kafka.tls.key_stores import KeyStore, StoreType
from flip27_stream.connectors.kafka.tls.ssl_options import SslOptions
from flip27_stream.connectors.kafka.tls.store_settings import (
    STORE_TYPE,
    TrustOptions,
    one_place,
    refuse_without_store,
    store_type,
)
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import alternatives, any_text, one_of, words
from flip27_stream.options.option import Option

_LOGIN_MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
}
"""The login modules of the mechanisms of user name and password."""
_OAUTHBEARER = "OAUTHBEARER"
_OWN_OPTIONS: Final[dict[str, tuple[Option[Any], ...]]] = {
    Kerberos.mechanism: KERBEROS_OPTIONS,
    _OAUTHBEARER: OAUTH_OPTIONS,
    MskIam.mechanism: (CLIENT_HANDLER,),
}
"""The options that only one mechanism uses."""
MECHANISMS: Final = tuple(dict.fromkeys((Kerberos.mechanism, *_LOGIN_MODULES, *_OWN_OPTIONS)))
"""The names of all mechanisms; the first one is the default."""
_OLD_VERSIONS: Final = ("TLSv1", "TLSv1.1")
"""Versions that Java does not use either, though its settings name them (``jdk.tls.disabledAlgorithms``)."""
_VERSIONS = {"TLSv1.2": TLSVersion.TLSv1_2, "TLSv1.3": TLSVersion.TLSv1_3}

PROTOCOL: Final = Option(
    "kafka.security.protocol",
    words("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "PLAINTEXT",
    "Whether connections are encrypted, and whether users log in.",
)
MECHANISM: Final = Option(
    "kafka.sasl.mechanism",
    any_text(alternatives(MECHANISMS)),
    MECHANISMS[0],
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
TRUST: Final = TrustOptions.named("kafka.")
KEY_STORE_LOCATION: Final = Option(
    "kafka.ssl.keystore.location",
    any_text("path"),
    None,
    "Key and certificate of this client, if brokers ask for one.",
)
KEY_STORE_TYPE: Final = Option(
    "kafka.ssl.keystore.type",
    STORE_TYPE,
    None,
    "Format of the key store; see the trust store.",
    default_words="`JKS`, as in Java",
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
    "The certificate of that key, and the certificates that signed it.",
)
KEY_PASSWORD: Final = Option(
    "kafka.ssl.key.password",
    any_text(),
    None,
    "Password of the key, if it differs from that of the key store.",
    secret=True,
)
CHECK_HOSTNAME: Final = Option(
    "kafka.ssl.endpoint.identification.algorithm",
    one_of({"https": True, "": False}, "`https` or empty"),
    "https",
    "Whether a broker's certificate must name its host: `https`, or empty for no check.",
)
ENABLED_PROTOCOLS: Final = Option(
    "kafka.ssl.enabled.protocols",
    any_text("`TLSv1.2`, `TLSv1.3`, or both with a comma between"),
    "TLSv1.2,TLSv1.3",
    "The versions of TLS that may be used. `TLSv1` and `TLSv1.1` beside these are left out, as Java does.",
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
    *TRUST.all,
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
        options: The options of the query, by their names in lower case.
        warn: Called with the name of each option that has no effect, and the reason.

    Raises:
        OptionError: A value is wrong, missing or not supported.
    """
    if (credential := parse_service_credential(options)) is not None:
        return SecurityOptions("SASL_SSL", _ssl(options), credential)
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
                _refuse_class_of_user(option, options)
                warn(option.name, f"kafka.sasl.mechanism is {mechanism}")
    if mechanism == Kerberos.mechanism:
        return parse_kerberos(options, text)
    if mechanism == _OAUTHBEARER:
        return parse_oauth(options, text)
    if mechanism == MskIam.mechanism:
        return parse_msk_iam(options, text, protocol)
    if mechanism not in _LOGIN_MODULES:
        allowed = ", ".join((*_LOGIN_MODULES, *_OWN_OPTIONS))
        raise OptionError.of(
            "kafka.sasl.mechanism", mechanism, f"This mechanism is not supported. Allowed: {allowed}."
        )
    if text is None:
        raise OptionError(
            f"With option 'kafka.security.protocol' {protocol}, option 'kafka.sasl.jaas.config' must be given, such as "
            f'org.apache.kafka.common.security...{_LOGIN_MODULES[mechanism]} required username="..." password="..."; '
            "(a JAAS file of the Java process is not read)."
        )
    username, password = parse_password(text, mechanism, _LOGIN_MODULES[mechanism])
    return PasswordCredentials(mechanism, username, password)


def _refuse_class_of_user(option: Option[Any], options: Mapping[str, str]) -> None:
    """Checks that an option names no callback handler of the user in Java, which would give the credentials.

    The handlers of Apache Kafka take them from ``sasl.jaas.config``, as this source does.
    """
    if option in (HANDLER, CLIENT_HANDLER):
        name = option.text(options) or ""
        known = bare_name(name) in (*HANDLER_CLASSES, CLIENT_HANDLER_CLASS)
        if not known and not bare_name(name).startswith("org.apache.kafka.common.security."):
            raise OptionError.of(
                option.name,
                name,
                "This source runs no Java code. Leave the option out, and give the credentials in option "
                "'kafka.sasl.jaas.config'.",
            )


def _ssl(options: Mapping[str, str]) -> SslOptions:
    least, most = _versions(options)
    return SslOptions(TRUST.store(options), _keys(options), _check_hostname(options), least, most)


def _check_hostname(options: Mapping[str, str]) -> bool:
    return CHECK_HOSTNAME.require(options)


def _versions(options: Mapping[str, str]) -> tuple[TLSVersion, TLSVersion]:
    enabled = ENABLED_PROTOCOLS.text(options)
    names = list(_VERSIONS) if enabled is None else [name.strip() for name in enabled.split(",")]
    names = [name for name in names if name not in _OLD_VERSIONS] or names
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


def _keys(options: Mapping[str, str]) -> KeyStore | None:
    location, key = one_place(options, KEY_STORE_LOCATION, KEY)
    chain = CERTIFICATE_CHAIN.text(options)
    password = KEY_STORE_PASSWORD.text(options)
    if (key is None) != (chain is None):
        raise OptionError(
            "Options 'kafka.ssl.keystore.key' and 'kafka.ssl.keystore.certificate.chain' must be given together."
        )
    kind = store_type(options, KEY_STORE_TYPE, KEY)
    if location is None and key is None:
        refuse_without_store(options, (KEY_STORE_PASSWORD, KEY_PASSWORD), KEY_STORE_LOCATION)
        return None
    if kind is StoreType.PEM and password is not None:
        raise OptionError(
            "Option 'kafka.ssl.keystore.password' cannot be given for a key store of type PEM; "
            "'kafka.ssl.key.password' decrypts its key."
        )
    if kind is not StoreType.PEM and password is None:
        raise OptionError(f"A key store of type {kind.value} needs option 'kafka.ssl.keystore.password'.")
    return KeyStore(kind, location, password, key, chain, KEY_PASSWORD.text(options))
