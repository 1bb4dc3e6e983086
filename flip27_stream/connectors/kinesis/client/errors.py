"""Errors of the service that callers handle in different ways."""

from __future__ import annotations

from flip27_stream.errors import ConnectorError, UnreachableError

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
"""The error codes of the service after which the same call is made again."""

RETRIED_OF = frozenset(
    (operation, "ResourceInUseException") for operation in ("ListShards", "GetShardIterator", "GetRecords")
)
"""The same for single operations: a stream that is being created or deleted cannot be read."""

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
"""The error codes of the service for credentials that are invalid or do not permit the call."""


class NotThereError(ConnectorError):
    """The stream, shard, consumer or sequence number does not exist in the service."""


class IteratorExpiredError(ConnectorError):
    """A shard iterator is older than five minutes, or not valid any more."""


class SilentError(UnreachableError):
    """The service did not answer a request for the first record at a time, or refused one that is not essential."""


class LostRecordError(ConnectorError):
    """The record that a position names does not exist any more."""


class InUseError(ConnectorError):
    """A consumer with that name exists already, or the consumer subscribed to the shard less than five seconds ago."""
