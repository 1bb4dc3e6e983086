"""One attempt of a call of the service, and the text of its failure, which has no secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from flip27_stream.connectors.kinesis.client.errors import (
    DENIED,
    OUTDATED,
    RETRIED,
    RETRIED_OF,
    CredentialsError,
    InUseError,
    IteratorExpiredError,
    NotThereError,
)
from flip27_stream.errors import AuthenticationError, ConnectorError

_HIDDEN = "[hidden]"
_SIGNED = re.compile(
    r"(x-amz-security-token\W{0,2}[:=]\s*(?:b?['\"])?|\bSignature\s*=\s*)[^\s&,;'\"]+|(//)[^/\s]+(?=@)",
    re.IGNORECASE,
)
"""Matches the session token and the signature of a request, and the user and password of a URL."""
_TOKEN = re.compile(r"[A-Za-z0-9+/=]{100,}")
"""A session token as AWS makes them."""
_NEEDED = {
    "AssumeRole": "Credentials",
    "DescribeStreamConsumer": "ConsumerDescription",
    "DescribeStreamSummary": "StreamDescriptionSummary",
    "GetRecords": "Records",
    "GetShardIterator": "ShardIterator",
    "ListShards": "Shards",
}
"""The field that an answer must have, by operation."""
_TOO_MANY_REQUESTS = 429


@dataclass(frozen=True)
class Failure:
    """The failure of an attempt, after which the call can be made again.

    Attributes:
        why: The reason, without secrets.
        is_silent: Whether no answer came in time.
    """

    why: str
    is_silent: bool = False


def attempt(
    what: str, operation: str, call: Callable[[], Any], *, place: str, secrets: Iterable[str] = ()
) -> Any:
    """Returns the answer, or a :class:`Failure` if the call can be made again.

    Errors are raised without their cause, which may quote the signed request.

    Args:
        what: A description of the call, for errors.
        operation: The service's name of the operation.
        call: Makes the call.
        place: The address of the service, for errors.
        secrets: The texts that no error may show.

    Raises:
        NotThereError: The stream, shard, consumer or sequence number does not exist.
        AuthenticationError: These credentials do not permit the call.
        ConnectorError: The service refused for another reason.
    """
    from botocore import eventstream, exceptions, parsers
    from urllib3.exceptions import HTTPError

    try:
        answer = call()
    except exceptions.ClientError as error:
        code, status = error.response["Error"].get("Code", ""), error.response["ResponseMetadata"]
        why, status_code = reason(error, secrets), status.get("HTTPStatusCode", 0)
        is_temporary = code in RETRIED or (operation, code) in RETRIED_OF
        if is_temporary or status_code == _TOO_MANY_REQUESTS or status_code >= 500:
            return Failure(why)
        raise_refusal(what, code, why)
        raise ConnectorError(f"{what} was refused at {place}: {why}") from None
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
        raise CredentialsError(
            f"{what} needs credentials: {error}. Set options 'awsAccessKey' and 'awsSecretKey', or 'roleArn', or "
            "one of the sources of boto3's credential chain."
        ) from None
    except (
        exceptions.ConnectionError,
        exceptions.HTTPClientError,
        parsers.ResponseParserError,
        exceptions.CredentialRetrievalError,
        exceptions.IncompleteReadError,
        eventstream.ParserError,
        HTTPError,
    ) as error:
        return Failure(masked(str(error), secrets), isinstance(error, exceptions.ReadTimeoutError))
    except exceptions.BotoCoreError as error:
        raise ConnectorError(f"{what} could not be made at {place}: {masked(str(error), secrets)}") from None
    needed = _NEEDED.get(operation)
    if needed is not None and answer.get(needed) is None:
        return Failure(f"the answer has no field '{needed}'")
    return answer


def raise_refusal(what: str, code: str, why: str) -> None:
    """Raises the error for an error code of the service that callers handle; does nothing for other codes."""
    if code in DENIED:
        kind = CredentialsError if code in OUTDATED else AuthenticationError
        raise kind(f"{what} was denied: {why.rstrip('.')}. {DENIED[code]}") from None
    if code in ("ExpiredIteratorException", "ExpiredNextTokenException"):
        raise IteratorExpiredError(f"{what}: {why}") from None
    if code == "ResourceInUseException":
        raise InUseError(f"{what}: {why}") from None
    if code in ("ResourceNotFoundException", "InvalidArgumentException"):
        raise NotThereError(f"{what}: {why}") from None


def reason(error: Any, secrets: Iterable[str]) -> str:
    """Returns the code and the message of an error of the service (botocore's ``ClientError``), without secrets.

    Only the first paragraph is shown: after it the service quotes the signed request.
    """
    said = error.response["Error"]
    message = str(said.get("Message", "")).strip().partition("\n")[0].strip()
    return masked(": ".join(filter(None, (said.get("Code"), message))), secrets)


def masked(text: str, secrets: Iterable[str]) -> str:
    """Returns a text in which the secrets, and the secret parts of signed requests, are hidden."""
    for secret in secrets:
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", _HIDDEN, text)
    return _TOKEN.sub(_HIDDEN, _SIGNED.sub(rf"\1\2{_HIDDEN}", text))
