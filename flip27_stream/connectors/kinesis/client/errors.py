"""Errors of the service that callers handle in different ways."""

from __future__ import annotations

from flip27_stream.errors import ConnectorError

RETRIED = frozenset(
    {
        "InternalFailure",
        "InternalFailureException",
        "InternalServerError",
        "KMSThrottlingException",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
    }
)
"""Codes of answers after which the same call is made again."""

DENIED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "KMSAccessDeniedException",
        "MissingAuthenticationTokenException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
"""Codes of answers to somebody who may not ask."""


class NotThereError(ConnectorError):
    """The service knows no such stream, shard or sequence number."""


class IteratorExpiredError(ConnectorError):
    """A shard iterator is older than five minutes, or not valid any more."""


class LostRecordError(ConnectorError):
    """The record that a position names is gone."""


class InUseError(ConnectorError):
    """The consumer has that name already, or its subscription to the shard is not five seconds old."""
