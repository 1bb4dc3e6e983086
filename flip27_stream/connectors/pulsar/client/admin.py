"""The client of the admin API, which lists the topics of a namespace for option ``topicsPattern``."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request

from flip27_stream.connectors.pulsar.client.certificates import admin_context, not_trusted
from flip27_stream.connectors.pulsar.client.session import token_of
from flip27_stream.connectors.pulsar.options.connection_options import PulsarConnectionOptions
from flip27_stream.errors import AuthenticationError, ConnectorError, MissingTopicError, UnreachableError

_PARTITION = re.compile(r"-partition-\d+$")


def topics_of(options: PulsarConnectionOptions, namespace: str) -> list[str]:
    """Returns the full names of the persistent topics in a namespace, without the names of single partitions.

    Args:
        options: The options of the connections; :attr:`~PulsarConnectionOptions.admin_url` must be set.
        namespace: The namespace, as ``tenant/namespace``.

    Raises:
        UnreachableError: The server does not answer.
        AuthenticationError: The server refuses the token, or its certificate is not trusted.
        ConnectorError: The namespace does not exist, or the request was refused.
    """
    found = {_PARTITION.sub("", topic) for topic in _get(options, f"persistent/{namespace}")}
    return sorted(found | set(_get(options, f"persistent/{namespace}/partitioned")))


def _get(options: PulsarConnectionOptions, path: str) -> list[str]:
    url = f"{(options.admin_url or '').rstrip('/')}/admin/v2/{urllib.parse.quote(path)}"
    headers = {}
    if options.auth_method == "token":
        headers["Authorization"] = f"Bearer {token_of(options.auth_params)}"
    what = f"The topics of {path.removeprefix('persistent/')} could not be listed at {url}"
    try:
        request = urllib.request.Request(url, headers=headers)
        tls = admin_context(options) if url.startswith("https:") else None
        timeout_s = options.operation_timeout_ms / 1000
        with urllib.request.urlopen(request, timeout=timeout_s, context=tls) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            why = f"{what}: {error.code} {error.reason}"
        if error.code in (401, 403):
            raise AuthenticationError(f"{why}. See option 'pulsar.client.authParams'.") from error
        if error.code == 404:
            raise MissingTopicError(f"{why}. Check the namespace in option 'topicsPattern'.") from error
        raise ConnectorError(f"{why}. See option 'admin.url'.") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise not_trusted(what, url, reason.verify_message) from error
        raise UnreachableError(f"{what}: {error}. Check option 'admin.url'.") from error
    except ValueError as error:
        raise ConnectorError(f"{what}: the answer is not JSON. Check option 'admin.url'.") from error
    return [str(topic) for topic in found]
