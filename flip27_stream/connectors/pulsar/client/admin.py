"""The client of the admin API, which lists the topics of a namespace for option ``topicsPattern``."""

from __future__ import annotations

import json
import re
import ssl
import urllib.parse
import urllib.request

from flip27_stream.connectors.pulsar.client.certificates import admin_context, not_trusted
from flip27_stream.connectors.pulsar.client.session import token_of
from flip27_stream.connectors.pulsar.options.connection_options import PulsarConnectionOptions
from flip27_stream.errors import AuthenticationError, ConnectorError, MissingTopicError, UnreachableError
from flip27_stream.http_calls import HttpRefusal, call

_PARTITION = re.compile(r"-partition-\d+$")
_SYSTEM = re.compile(r"__change_events|__transaction_buffer_snapshot\w*|.+__transaction_pending_ack")
"""The local names of the topics that brokers keep for themselves in each namespace. From Pulsar 2.11 on, brokers do not
list them.
"""
_MOST_BYTES = 1 << 26
_REDIRECTS = (301, 302, 303, 307, 308)


def topics_of(options: PulsarConnectionOptions, namespace: str) -> list[str]:
    """Returns the full names of the persistent topics in a namespace, without the names of single partitions.

    Topics that brokers keep for themselves are left out.

    Args:
        options: The options of the connections; :attr:`~PulsarConnectionOptions.admin_url` must be set.
        namespace: The namespace, as ``tenant/namespace``.

    Raises:
        UnreachableError: The server does not answer.
        AuthenticationError: The server refuses the token, or its certificate is not trusted.
        OptionError: The file of the token or that of trusted certificates cannot be used.
        ConnectorError: The namespace does not exist, or the request was refused.
    """
    found = {_PARTITION.sub("", topic) for topic in _get(options, f"persistent/{namespace}")}
    found |= set(_get(options, f"persistent/{namespace}/partitioned"))
    return sorted(topic for topic in found if not _SYSTEM.fullmatch(topic.rpartition("/")[2]))


def _get(options: PulsarConnectionOptions, path: str) -> list[str]:
    url = f"{(options.admin_url or '').rstrip('/')}/admin/v2/{urllib.parse.quote(path)}"
    headers = {}
    if options.auth_method == "token":
        headers["Authorization"] = f"Bearer {token_of(options.auth_params)}"
    what = f"The topics of {path.removeprefix('persistent/')} could not be listed at {url}"
    request = urllib.request.Request(url, headers=headers)
    tls = admin_context(options) if url.startswith("https:") else None
    try:
        found = json.loads(call(request, options.operation_timeout_ms / 1000, _MOST_BYTES, tls))
    except HttpRefusal as refusal:
        raise _refused(what, refusal) from refusal
    except OSError as error:
        reason = getattr(error, "reason", None)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise not_trusted(what, url, reason.verify_message) from error
        raise UnreachableError(f"{what}: {error}. Check option 'admin.url'.") from error
    except ValueError as error:
        raise ConnectorError(f"{what}: the answer is not JSON. Check option 'admin.url'.") from error
    return [str(topic) for topic in found]


def _refused(what: str, refusal: HttpRefusal) -> ConnectorError:
    why = f"{what}: {refusal.code} {refusal.reason}"
    if refusal.code in (401, 403):
        return AuthenticationError(f"{why}. See option 'pulsar.client.authParams'.")
    if refusal.code == 404:
        return MissingTopicError(f"{why}. Check the namespace in option 'topicsPattern'.")
    if refusal.code in _REDIRECTS:
        return ConnectorError(
            f"{why}. The server names another server, which is not asked, because it would get the token. Give the "
            "address of that server in option 'admin.url'."
        )
    return ConnectorError(f"{why}. See option 'admin.url'.")
