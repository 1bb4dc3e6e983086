"""Refuses answers of the service that were cut, and parses the answers of GetRecords faster than botocore.

botocore treats an answer whose connection was closed too early as an empty answer. For each field of each record it
uses its model of the service, which takes most of the time of reading small records. Large records are mostly base64,
which is cut out of the JSON before the JSON is parsed. botocore's event ``before-parse`` allows other code to parse the
body of an answer.
"""

from __future__ import annotations

import json
from typing import Any

from pybase64 import b64decode

_DATA = b'"Data":"'
"""The text before the data of a record. Inside of a string the quotes would have backslashes."""


def parse_with(client: Any) -> None:
    """Makes a boto3 client raise botocore's IncompleteReadError for answers that were cut, and parse GetRecords here.

    Records have the same keys and values as from botocore.
    """
    client.meta.events.register("before-parse.kinesis", _parse)


def _parse(operation_model: Any, response_dict: dict[str, Any], **more: Any) -> None:
    """Parses a successful answer of GetRecords. Other answers, errors and unexpected JSON are left to botocore."""
    _check_whole(response_dict)
    if operation_model.name != "GetRecords" or response_dict["status_code"] != 200:
        return
    try:
        answer = parsed(response_dict["body"])
    except (ValueError, KeyError, TypeError):
        return
    more["customized_response_dict"].update(answer)
    response_dict["body"] = b"{}"


def parsed(body: bytes) -> Any:
    """Returns an answer of GetRecords, with the data of its records as bytes.

    Raises:
        ValueError: The body is not JSON, or not in the form of the service.
        KeyError: The answer has no records.
        TypeError: A part of the answer has another type.
    """
    view, rest, data, at = memoryview(body), [], [], 0
    while (found := body.find(_DATA, at)) >= 0:
        start = found + len(_DATA)
        rest.append(body[at:start])
        at = body.find(b'"', start)
        data.append(b64decode(view[start:at], None, True))
    rest.append(body[at:])
    answer = json.loads(b"".join(rest))
    for record, decoded in zip(answer["Records"], data, strict=True):
        record["Data"] = decoded
    return answer


def _check_whole(response_dict: dict[str, Any]) -> None:
    """Checks that the body has the length in the headers; without a length (cut headers) the body is empty."""
    from botocore.exceptions import IncompleteReadError

    body, headers = response_dict["body"], response_dict["headers"]
    if not isinstance(body, bytes):  # An event stream has its own lengths and checksums.
        return
    stated = headers.get("content-length")
    if len(body) < int(stated) if stated else not body and "transfer-encoding" not in headers:
        raise IncompleteReadError(actual_bytes=len(body), expected_bytes=stated or "some")
