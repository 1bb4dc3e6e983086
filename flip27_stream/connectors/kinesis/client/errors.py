"""Errors of the service that callers handle in different ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flip27_stream.errors import AuthenticationError, ConnectorError, UnreachableError

RETRIED = frozenset(
    {
        "InternalFailure",
        "InternalFailureException",
        "InternalServerError",
        "KMSThrottlingException",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
"""The error codes of the service after which the same call is made again."""

RETRIED_OF = frozenset(
    (operation, "ResourceInUseException") for operation in ("ListShards", "GetShardIterator", "GetRecords")
)
"""The same for single operations: a stream that is being created or deleted cannot be read."""

_NO_PERMISSION = "Give these credentials the permission for the call."
_EXPIRED = (
    "The session token has expired: start the query with new credentials, or with option 'roleArn', whose credentials "
    "are renewed."
)
_SIGNATURE = (
    "Check the secret key, and the clock of this machine: signatures are valid for a few minutes only."
)
_KEYS = "Check the access key, the secret key and the session token."

DENIED: Final[Mapping[str, str]] = {
    "AccessDenied": _NO_PERMISSION,
    "AccessDeniedException": _NO_PERMISSION,
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "IncompleteSignature": _KEYS,
    "InvalidClientTokenId": _KEYS,
    "InvalidSignatureException": _SIGNATURE,
    "KMSAccessDeniedException": _NO_PERMISSION,
    "MissingAuthenticationTokenException": _KEYS,
    "RequestExpired": _SIGNATURE,
    "SignatureDoesNotMatch": _SIGNATURE,
    "UnrecognizedClientException": _KEYS,
}
"""The error codes of the service for credentials that are invalid or do not permit the call, and what to do."""


OUTDATED = frozenset(code for code, remedy in DENIED.items() if remedy in (_EXPIRED, _KEYS))
"""Those of them after which other credentials can be there when they are looked for again."""


class CredentialsError(AuthenticationError):
    """The call failed because there are no credentials, or they have expired, or the service does not know them."""


class NotThereError(ConnectorError):
    """The stream, shard, consumer or sequence number does not exist in the service."""


class IteratorExpiredError(ConnectorError):
    """A shard iterator or the token of a listing is older than five minutes, or not valid any more."""


class SilentError(UnreachableError):
    """The service did not answer a request for the first record at a time, or refused one that is not essential."""


class LostRecordError(ConnectorError):
    """The record that a position names does not exist any more."""


class InUseError(ConnectorError):
    """A consumer with that name exists already, or the consumer subscribed to the shard less than five seconds ago."""
