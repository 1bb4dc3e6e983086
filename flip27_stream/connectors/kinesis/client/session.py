"""Creates boto3 clients."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

from flip27_stream.connectors.kinesis.client.attempt import Failure, attempt, masked
from flip27_stream.connectors.kinesis.options.connection_options import KinesisConnectionOptions
from flip27_stream.errors import ConnectorError, OptionError

_CONNECT_TIMEOUT_S = 10.0
_READ_TIMEOUT_S = 60.0
_AGENT = "flip27-stream"

THREADS = 32
"""The number of threads that can use a client at the same time."""

_renewing = threading.Lock()


@functools.lru_cache(maxsize=16)
def shared_client(options: KinesisConnectionOptions, read_timeout_s: float | None = None) -> Any:
    """Returns the boto3 client with these options, which this process shares: creating a client takes half a second.

    boto3's own retries are off, because :class:`KinesisClient` makes retries that respect the limits of a shard.
    Arrival times stay numbers, because boto3's conversion to ``datetime`` takes longer than the rest of a record.

    Args:
        options: The address of the service, credentials and time limits.
        read_timeout_s: The time limit (s) for reading an answer, if it is shorter than usual.

    Raises:
        ConnectorError: A package of the extra ``kinesis`` is not installed.
        OptionError: boto3 cannot create a client with these options.
    """
    try:
        import boto3
        import botocore.session
        from botocore.exceptions import BotoCoreError, NoRegionError

        from flip27_stream.connectors.kinesis.client.record_pages import parse_with
    except ImportError as error:
        raise ConnectorError(
            f"Format 'flip27_kinesis' needs boto3 and pybase64 ({error}). Install flip27-stream[kinesis] on "
            "the driver and the executors."
        ) from error
    core = botocore.session.get_session()
    core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_unchanged)
    session = boto3.Session(botocore_session=core, region_name=options.region)
    config = _config(options, read_timeout_s)
    try:
        client = session.client(
            "kinesis", endpoint_url=options.endpoint, config=config, **_credentials(session, options)
        )
    except NoRegionError as error:
        raise OptionError(
            "Set option 'region': it is not set, and boto3's configuration has no region."
        ) from error
    except (BotoCoreError, ValueError) as error:
        raise OptionError(
            f"No client can be made for endpoint {options.endpoint!r} and region {options.region!r}: "
            f"{masked(str(error), options.secrets)}. See options 'endpoint', 'region' and the credentials."
        ) from None
    parse_with(client)
    return client


def renewed_client(client: Callable[[], Any], refused: Any) -> Any:
    """Returns a client that has looked for credentials again. Several threads get the same one.

    Args:
        client: Calls :func:`shared_client`.
        refused: The client whose credentials were refused.
    """
    with _renewing:
        if client() is refused:
            shared_client.cache_clear()
        return client()


def _config(options: KinesisConnectionOptions, read_timeout_s: float | None) -> Any:
    import boto3
    from botocore.config import Config

    timeout_s = options.request_timeout_ms / 1000
    return Config(
        retries={"total_max_attempts": 1},
        max_pool_connections=THREADS,
        connect_timeout=min(_CONNECT_TIMEOUT_S, timeout_s),
        read_timeout=min(read_timeout_s or _READ_TIMEOUT_S, timeout_s),
        # boto3 would build this value twice for each call, which takes a quarter of the time of a call.
        user_agent=f"{_AGENT} Boto3/{boto3.__version__}",
    )


def _credentials(session: Any, options: KinesisConnectionOptions) -> Mapping[str, Any]:
    given = {
        "aws_access_key_id": options.access_key,
        "aws_secret_access_key": options.secret_key,
        "aws_session_token": options.session_token,
    }
    if options.role_arn is None:
        return given
    _assume(session, options, given)
    return {}


def _assume(session: Any, options: KinesisConnectionOptions, given: Mapping[str, str | None]) -> None:
    """Makes a session use the credentials of the role, and renew them before they expire."""
    from botocore.credentials import DeferredRefreshableCredentials
    from botocore.exceptions import CredentialRetrievalError

    sts = session.client("sts", endpoint_url=options.sts_endpoint, config=_config(options, None), **given)
    what, place = f"AssumeRole of {options.role_arn}", options.sts_endpoint or "AWS STS"
    asked = {"RoleArn": options.role_arn, "RoleSessionName": options.role_session_name}
    if options.role_external_id is not None:
        asked["ExternalId"] = options.role_external_id

    def refresh() -> dict[str, str]:
        answer = attempt(
            what, "AssumeRole", lambda: sts.assume_role(**asked), place=place, secrets=options.secrets
        )
        if isinstance(answer, Failure):
            raise CredentialRetrievalError(provider=place, error_msg=f"{what} failed: {answer.why}")
        assumed = answer["Credentials"]
        return {
            "access_key": assumed["AccessKeyId"],
            "secret_key": assumed["SecretAccessKey"],
            "token": assumed["SessionToken"],
            "expiry_time": _iso(assumed["Expiration"]),
        }

    session._session._credentials = DeferredRefreshableCredentials(refresh, "assume-role")


def _iso(expiration: Any) -> str:
    return str(expiration.isoformat()) if hasattr(expiration, "isoformat") else str(expiration)


def _unchanged(value: Any) -> Any:
    return value
