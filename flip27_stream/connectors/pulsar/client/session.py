"""Creates clients of pulsar-client."""

from __future__ import annotations

import functools
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from flip27_stream.connectors.pulsar.client.certificates import check_trusted_certificates
from flip27_stream.connectors.pulsar.options.auth_params import (
    OAUTH2_NAMES,
    check_private_key,
    pairs_of,
    path_of,
)
from flip27_stream.connectors.pulsar.options.connection_options import PulsarConnectionOptions
from flip27_stream.connectors.pulsar.options.option_list import AUTH_PARAMS
from flip27_stream.errors import ConnectorError, OptionError


@functools.lru_cache(maxsize=16)
def shared_client(options: PulsarConnectionOptions) -> Any:
    """Returns the client with these options, which all threads of this process share.

    Raises:
        ConnectorError: The package pulsar-client is not installed.
        OptionError: The package cannot create a client with these options, or a file in them cannot be used.
    """
    try:
        import pulsar
    except ImportError as error:
        raise ConnectorError(
            "Format 'flip27_pulsar' needs pulsar-client. Install flip27-stream[pulsar] on the driver and the executors."
        ) from error
    check_trusted_certificates(options)
    authentication = _authentication(options)
    try:
        return pulsar.Client(
            options.service_url,
            authentication=authentication,
            operation_timeout_seconds=max(round(options.attempt_s), 1),
            connection_timeout_ms=options.connection_timeout_ms,
            io_threads=options.io_threads,
            concurrent_lookup_requests=options.concurrent_lookups,
            tls_trust_certs_file_path=options.tls_trust_certs,
            tls_allow_insecure_connection=options.tls_allow_insecure,
            tls_validate_hostname=options.tls_validate_hostname,
            listener_name=options.listener_name,
            # Its log would go to standard output. Failures reach the user as errors.
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
        )
    except (pulsar.PulsarException, ValueError, RuntimeError) as error:
        raise OptionError(
            f"No client can be made for service.url {options.service_url!r}: {error}. See options 'service.url' and "
            "those that begin with 'pulsar.client.'."
        ) from error


def _authentication(options: PulsarConnectionOptions) -> Any:
    import pulsar

    method, params = options.auth_method, options.auth_params
    if method is None:
        return None
    if method == "token":
        return pulsar.AuthenticationToken(token_of(params) if path_of(params) is None else _TokenFile(params))
    given = pairs_of(method, params)
    if method == "basic":
        return pulsar.AuthenticationBasic(given["userId"], given["password"])
    if method == "tls":
        for name in ("tlsCertFile", "tlsKeyFile"):
            _content(given[name])
        return pulsar.AuthenticationTLS(given["tlsCertFile"], given["tlsKeyFile"])
    if not given["privateKey"].startswith("data:"):
        check_private_key(_content(path_of(given["privateKey"]) or given["privateKey"]))
    return pulsar.AuthenticationOauth2(
        json.dumps({OAUTH2_NAMES.get(name, name): value for name, value in given.items()})
    )


class _TokenFile:
    """A function that reads the token from a file at every call, because another program renews the token there.

    pulsar-client calls it in its own thread, where an error would end the process. So while the file cannot be read,
    the last token is returned, which the broker refuses if it has expired.
    """

    def __init__(self, params: str) -> None:
        self._params = params
        self._last = token_of(params)

    def __call__(self) -> str:
        with suppress(OptionError):
            self._last = token_of(self._params)
        return self._last


def token_of(params: str) -> str:
    """Returns the token in a text of the form ``token:...`` or ``file:...``; any other text is the token itself.

    Raises:
        OptionError: The file cannot be read, or is empty.
    """
    path = path_of(params)
    return params.removeprefix("token:") if path is None else _content(path)


def _content(path: str) -> str:
    """Returns the text of a file with credentials, without white space around it.

    Raises:
        OptionError: The file cannot be read, or is empty. The error shows the path only if its folder exists: any other
            text may be the credentials, which belong into the file.
    """
    try:
        content = Path(path).read_text().strip()
    except UnicodeDecodeError as error:
        raise OptionError(
            f"File {path!r} of option '{AUTH_PARAMS.name}' is not text. Name the file with the credentials."
        ) from error
    except (OSError, ValueError) as error:
        is_path = os.path.isabs(path) and os.path.isdir(os.path.dirname(path))
        which = (
            repr(path) if is_path else "what is given is not shown, since it is no path in an existing folder"
        )
        raise OptionError(
            f"A file of option '{AUTH_PARAMS.name}' cannot be read: {getattr(error, 'strerror', error)}, {which}. Give "
            "the absolute path of a file that is on the driver and on the executors."
        ) from None
    if not content:
        raise OptionError(
            f"File {path!r} of option '{AUTH_PARAMS.name}' is empty. Name the file with the credentials."
        )
    return content
