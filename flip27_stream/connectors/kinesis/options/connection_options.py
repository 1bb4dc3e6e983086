"""The address of the service, and the credentials."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class KinesisConnectionOptions:
    """The address of the service, credentials and time limits. ``repr`` does not show secrets.

    Attributes:
        region: of AWS.
        endpoint: URL of the service, where it is not AWS' own of the region.
        access_key: of explicit credentials; ``None`` for boto3's credential chain.
        role_arn: a role to assume with these credentials.
        request_timeout_ms: for how long one call is tried.
        probe_timeout_s: how long an answer to a question about a time is waited for.
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
    def place(self) -> str:
        """The address of the service, for messages."""
        return self.endpoint or f"region {self.region}"
