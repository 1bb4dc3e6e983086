"""Parses and checks option ``pulsar.client.authParams``. The errors have no part of the value, which is secret."""

from __future__ import annotations

import base64
import json

from flip27_stream.connectors.pulsar.options.option_list import AUTH_PARAMS
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import json_value

_DATA = "data:application/json;base64,"
_FILE = "file:"
_OTHER_NAMES = {"issuer_url": "issuerUrl", "private_key": "privateKey"}
"""The names of parameters in the Java client, by their names in pulsar-client."""
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
    is_json = params.lstrip().startswith("{") or method == "oauth2"
    if is_json and not isinstance(json_value(params), dict):
        raise AUTH_PARAMS.wrong(params, "It must be a JSON object.")
    given = pairs_of(params)
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


def pairs_of(params: str) -> dict[str, str]:
    """Returns the parameters in a JSON object, or in ``name:value,name:value``, by their names in the Java client.

    Values that are neither texts nor numbers are left out.
    """
    if params.lstrip().startswith("{"):
        given = json.loads(params).items()
        found = {name: str(value) for name, value in given if isinstance(value, str | int)}
    else:
        found = dict(part.strip().split(":", 1) for part in params.split(",") if ":" in part)
    return {_OTHER_NAMES.get(name, name): value for name, value in found.items()}


def _decoded(data: str) -> str:
    """Returns the text in a URL with data; an empty text if it has no text in Base64."""
    try:
        return base64.b64decode(data.removeprefix(_DATA)).decode() if data.startswith(_DATA) else ""
    except ValueError:
        return ""
