"""What Spark hides when it prints options, as ``explain(True)`` does.

Spark hides a value whose name or text matches ``spark.sql.redaction.options.regex`` or ``spark.redaction.regex``. The
defaults know passwords, secrets, tokens, access keys and URLs, but neither private keys nor account keys.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

REDACTION_SETTING = "spark.sql.redaction.options.regex"

SECRETS = (
    r"(?i)jaas|keystore[._]key|private.?key|(account|shared|master|customer).?key|sas[._]|[?&]sig="
    r"|credential|connection.?string|certificate[._]?chain|-----BEGIN "
)
"""What matches is hidden, be it the name of an option or its value."""


def hide_secrets(spark: SparkSession) -> None:
    """Extend what a session hides; doing so again changes nothing.

    It takes no more than ``spark.conf``, so Spark Connect's sessions will do.
    """
    hidden = spark.conf.get(REDACTION_SETTING) or ""
    if SECRETS not in hidden:
        spark.conf.set(REDACTION_SETTING, f"({hidden})|({SECRETS})" if hidden else SECRETS)
