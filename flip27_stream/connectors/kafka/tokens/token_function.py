"""Gets tokens from a function of the user, ``module:function``."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass

from flip27_stream.connectors.kafka.tokens.token_cache import Token, jwt_expiry
from flip27_stream.errors import AuthenticationError, OptionError

OPTION = "kafka.sasl.oauthbearer.token.provider"

_FORM = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


@dataclass(frozen=True)
class TokenFunction:
    """A function without arguments that returns a token, or a pair of a token and its expiry.

    The expiry is in seconds since the epoch. Without it, the expiry of a JSON Web Token is read from the token, and any
    other token is used for one connection.

    Attributes:
        name: ``module:function``; the driver and the executors must be able to import it.
        option: The option with the name, for messages.
    """

    name: str
    option: str = OPTION

    def __post_init__(self) -> None:
        if not _FORM.fullmatch(self.name):
            raise OptionError.of(
                self.option, self.name, "Expected module:function, such as mycompany.kafka:token."
            )

    def fetch(self) -> Token:
        """Returns a new token.

        Raises:
            AuthenticationError: The function cannot be imported, fails, or returns a value of another type.
            OSError: The function raised an OSError, because its source of tokens cannot be reached now.
        """
        module, _, function = self.name.partition(":")
        try:
            found = getattr(importlib.import_module(module), function)()
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - a function of the user may raise anything
            # The text of the error may have a secret in it.
            raise AuthenticationError(
                f"The token provider {self.name} of option '{self.option}' failed with {type(error).__name__}. Call "
                "the function on the driver and on an executor to see the error."
            ) from None
        value, expiry = (
            (found[0], found[1]) if isinstance(found, tuple) and len(found) >= 2 else (found, None)
        )
        if not isinstance(value, str) or not isinstance(expiry, (int, float, type(None))):
            raise AuthenticationError(
                f"The token provider {self.name} of option '{self.option}' must return a str, or a tuple of a str and "
                f"the expiry in seconds since the epoch, not {type(found).__name__}."
            )
        return Token(value, jwt_expiry(value) if expiry is None else float(expiry))
