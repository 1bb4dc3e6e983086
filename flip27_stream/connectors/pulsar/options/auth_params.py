"""Parses and checks option ``pulsar.client.authParams``. The errors have no part of the value, which is secret."""

from __future__ import annotations

import base64
from typing import Final

from flip27_stream.connectors.pulsar.options.option_list import AUTH_PARAMS
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import json_value

_DATA = "data:application/json;base64,"
_FILE = "file:"
OAUTH2_NAMES: Final = {"issuerUrl": "issuer_url", "privateKey": "private_key"}
"""The names of parameters in pulsar-client, by their names in the Java client."""
_NEEDED = {
    "tls": ("tlsCertFile", "tlsKeyFile"),
    "basic": ("userId", "password"),
    "oauth2": ("issuerUrl", "privateKey"),
}


def check_auth_params(method: str, params: str) -> None:
    """Checks the parameters of an authentication method, as far as they are not in files.

    Raises:
        OptionError: A parameter is missing or wrong.
    """
    if not params:
        raise OptionError(
            f"Option 'pulsar.client.authPluginClassName' ({method}) needs option '{AUTH_PARAMS.name}'. Give both, or "
            "neither."
        )
    if method == "token":
        if path_of(params) is None and not params.removeprefix("token:").strip():
            raise AUTH_PARAMS.wrong(params, "The token is empty.")
        return
    given = pairs_of(method, params)
    missing = [name for name in _NEEDED[method] if not given.get(name)]
    if missing:
        raise AUTH_PARAMS.wrong(params, f"It must have {' and '.join(missing)}, as text.")
    if method == "oauth2" and given["privateKey"].startswith("data:"):
        check_private_key(_decoded(given["privateKey"]))


def check_private_key(text: str) -> None:
    """Checks the credentials that parameter ``privateKey`` of method ``oauth2`` has or refers to.

    Raises:
        OptionError: They have no id or no secret of a client.
    """
    found = json_value(text)
    if not isinstance(found, dict) or not {"client_id", "client_secret"} <= found.keys():
        raise AUTH_PARAMS.wrong(
            text,
            "Parameter privateKey must be file:///path of a JSON object with client_id and client_secret, or "
            f"{_DATA} and this object in Base64.",
        )


def path_of(text: str) -> str | None:
    """Returns the path in a text of the form ``file:///path`` or ``file:path``; ``None`` for other texts."""
    return text.removeprefix(_FILE).removeprefix("//") if text.startswith(_FILE) else None


def pairs_of(method: str, params: str) -> dict[str, str]:
    """Returns the parameters in a JSON object, or in ``name:value,name:value``, by their names in the Java client.

    Values that are neither texts nor numbers are left out.

    Raises:
        OptionError: The text is not a JSON object, though it begins like one, or the method is ``oauth2``.
    """
    if method == "oauth2" or params.lstrip().startswith("{"):
        given = json_value(params)
        if not isinstance(given, dict):
            raise AUTH_PARAMS.wrong(params, "It must be a JSON object.")
        found = {name: str(value) for name, value in given.items() if isinstance(value, str | int)}
    else:
        found = dict(part.strip().split(":", 1) for part in params.split(",") if ":" in part)
    java_names = {name: java for java, name in OAUTH2_NAMES.items()}
    return {java_names.get(name, name): value for name, value in found.items()}


def _decoded(data: str) -> str:
    """Returns the text in a URL with data; an empty text if it has no text in Base64."""
    try:
        return base64.b64decode(data.removeprefix(_DATA)).decode() if data.startswith(_DATA) else ""
    except ValueError:
        return ""
