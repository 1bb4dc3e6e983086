"""The options of trust stores, and code that options of trust stores and key stores share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from flip27_stream.connectors.kafka.tls.key_stores import StoreType, TrustStore
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import any_text, one_of
from flip27_stream.options.option import Option

STORE_TYPE: Final = one_of({kind.value: kind for kind in StoreType})


@dataclass(frozen=True)
class TrustOptions:
    """The options of the trust store of one kind of connection.

    Attributes:
        prefix: The beginning of their names.
        location: The path of a file.
        type: The format of the store.
        password: The password of the store.
        certificates: PEM text in place of a file.
    """

    prefix: str
    location: Option[str]
    type: Option[StoreType]
    password: Option[str]
    certificates: Option[str]

    @classmethod
    def named(cls, prefix: str) -> TrustOptions:
        """Returns the options whose names begin with ``prefix``."""
        return cls(
            prefix,
            Option(
                f"{prefix}ssl.truststore.location",
                any_text("path"),
                None,
                "Certificates to trust; by default those this machine trusts. Files must exist on the driver and on "
                "the executors.",
            ),
            Option(
                f"{prefix}ssl.truststore.type",
                STORE_TYPE,
                None,
                "Format of the trust store. A file of type JKS may also be PKCS12, as in Java.",
                default_words="`JKS`, as in Java",
            ),
            Option(
                f"{prefix}ssl.truststore.password",
                any_text(),
                None,
                "Password of the trust store. Not allowed for PEM.",
                secret=True,
            ),
            Option(
                f"{prefix}ssl.truststore.certificates",
                any_text("PEM"),
                None,
                "Certificates in place of a file, with type PEM.",
            ),
        )

    @property
    def all(self) -> tuple[Option[Any], ...]:
        """The options, in the order of the options page."""
        return self.location, self.type, self.password, self.certificates

    def store(self, options: Mapping[str, str]) -> TrustStore | None:
        """Returns the trust store; ``None`` if the options name no store.

        Args:
            options: The options of the query, by their names in lower case.

        Raises:
            OptionError: A value is wrong, or does not fit the other options.
        """
        location, pem = one_place(options, self.location, self.certificates)
        password = self.password.text(options)
        kind = store_type(options, self.type, self.certificates)
        if location is None and pem is None:
            refuse_without_store(options, (self.password,), self.location)
            return None
        if kind is StoreType.PEM and password is not None:
            raise OptionError(f"Option '{self.password.name}' cannot be given for a trust store of type PEM.")
        return TrustStore(kind, location, password, pem, self.prefix)


def one_place(
    options: Mapping[str, str], location: Option[str], pem: Option[str]
) -> tuple[str | None, str | None]:
    """Returns the path and the PEM text of a store; only one of the two may be given.

    Raises:
        OptionError: Both are given, or the path is PEM text.
    """
    if location.is_given(options) and pem.is_given(options):
        raise OptionError(f"Options '{location.name}' and '{pem.name}' cannot be given together.")
    path = location.text(options)
    if path is not None and "-----BEGIN " in path:
        raise OptionError(f"Option '{location.name}' must be a path; PEM text goes into option '{pem.name}'.")
    return path, pem.text(options)


def store_type(options: Mapping[str, str], type_: Option[StoreType], pem: Option[str]) -> StoreType:
    """Returns the format of a store, which is JKS by default, as in Java.

    Raises:
        OptionError: PEM text is given, and the type is not PEM.
    """
    kind = type_.get(options) or StoreType.JKS
    if pem.is_given(options) and kind is not StoreType.PEM:
        raise OptionError(f"Option '{pem.name}' needs option '{type_.name}' to be PEM; it is {kind.value}.")
    return kind


def refuse_without_store(
    options: Mapping[str, str], given: tuple[Option[str], ...], location: Option[str]
) -> None:
    """Checks that no option of a store is given without the location of the store.

    Args:
        options: The options of the query, by their names in lower case.
        given: The options that need the store.
        location: The option with the location of the store, which is not given.

    Raises:
        OptionError: One of these options is given.
    """
    for option in given:
        if option.is_given(options):
            raise OptionError(
                f"Option '{option.name}' needs option '{location.name}', which is not given. Give that option too, or "
                f"leave option '{option.name}' out."
            )
