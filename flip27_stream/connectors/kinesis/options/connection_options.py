"""The options of the connections to Kinesis."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class KinesisConnectionOptions:
    """The address of the service, credentials and time limits. ``repr`` does not show secrets.

    Attributes:
        region: The AWS region; ``None`` for the region in boto3's configuration.
        endpoint: The URL of the service; ``None`` for the endpoint of AWS in the region.
        access_key: The id of the access key; ``None`` for boto3's credential chain.
        secret_key: The secret of the access key.
        session_token: The session token of temporary credentials; ``None`` for permanent ones.
        role_arn: The role to assume with these credentials; ``None`` to assume no role.
        role_external_id: The external id that the trust policy of the role requires; ``None`` if it requires none.
        role_session_name: The name of the role's sessions.
        sts_endpoint: The URL of the STS endpoint; ``None`` for boto3's default.
        request_timeout_ms: The time limit (ms) of all tries of one call.
        probe_timeout_s: The time limit (s) of a request for the first record at a time.
    """

    region: str | None = None
    endpoint: str | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    role_arn: str | None = None
    role_external_id: str | None = field(default=None, repr=False)
    role_session_name: str = "flip27-stream"
    sts_endpoint: str | None = None
    request_timeout_ms: int = 60_000
    probe_timeout_s: float = 1.5

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may show."""
        return tuple(filter(None, (self.secret_key, self.session_token, self.role_external_id)))
