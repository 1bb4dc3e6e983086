"""Tokens for SASL/OAUTHBEARER at Amazon MSK: requests signed by AWS credentials (aws-msk-iam-auth)."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass
from typing import Final

from flip27_stream.connectors.kafka.sasl.msk_iam import MskIam, default_region
from flip27_stream.connectors.kafka.tokens.token_cache import Token
from flip27_stream.errors import AuthenticationError
from flip27_stream.extras import check_installed

LOGIN_HANDLER: Final = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
"""The Java class that this module replaces."""

_LIFE_S: Final = 900


@dataclass(frozen=True)
class MskToken:
    """A provider of tokens for the brokers of an AWS region.

    Attributes:
        aws: The settings with which AWS credentials are found.
        region: The region of the brokers; ``None`` for that of AWS's settings.
    """

    aws: MskIam
    region: str | None

    def fetch(self) -> Token:
        """Returns a new token.

        Raises:
            AuthenticationError: No AWS credentials or no region are found.
            OSError: AWS cannot be reached now.
        """
        check_installed("boto3", "aws", "SASL/OAUTHBEARER at Amazon MSK")
        from botocore.auth import SigV4QueryAuth
        from botocore.awsrequest import AWSRequest

        region = self.region or default_region(self.aws.profile)
        if region is None:
            raise AuthenticationError(
                "A token for Amazon MSK needs the AWS region of the brokers, which is unknown: neither the names in "
                "option 'kafka.bootstrap.servers' nor AWS's settings have a region. Set AWS_REGION on the driver and "
                "on the executors."
            )
        request = AWSRequest(
            "GET", f"https://kafka.{region}.amazonaws.com/", params={"Action": "kafka-cluster:Connect"}
        )
        SigV4QueryAuth(self.aws.keys(), "kafka-cluster", region, _LIFE_S).add_auth(request)
        url = f"{request.url}&User-Agent=flip27-stream"
        return Token(base64.urlsafe_b64encode(url.encode()).decode().rstrip("="), time.time() + _LIFE_S)
