"""What Spark hides when it prints options, as ``explain(True)`` does.

Spark hides a value whose name or text matches ``spark.sql.redaction.options.regex`` or ``spark.redaction.regex``. The
defaults know passwords, secrets, tokens, access keys and URLs, but neither private keys nor account keys.
"""

from __future__ import annotations

import logging

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

REDACTION_SETTING = "spark.sql.redaction.options.regex"

# A Spark Connect server hides a setting whose text matches spark.redaction.regex (Spark 4.2.1 and later): written as
# [t], the pattern does not match the word of that default which it contains.
SECRETS = (
    r"(?i)jaas|keystore[._]key|private.?key|(account|shared|master|customer).?key|sas[._]|[?&]sig="
    r"|creden[t]ial|connection.?string|certificate[._]?chain|-----BEGIN "
)
"""What matches is hidden, be it the name of an option or its value."""

_DEFAULT = "(?i)url"
"""Spark's own value of the setting."""

_HIDDEN = "SQL_CONF_NOT_FOUND"
_DECLARATIVE_PIPELINE = "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"


def hide_secrets(spark: SparkSession) -> None:
    """Extend what a session hides; doing so again changes nothing.

    Only ``spark.conf`` is used, which sessions of Spark Connect have, too. Where the setting cannot be read,
    because the server hides it, or cannot be changed, as in the file of a declarative pipeline, it is left as it is,
    and a warning says what to add to it.
    """
    try:
        shown = spark.conf.get(REDACTION_SETTING) or ""
        if SECRETS not in shown:
            spark.conf.set(REDACTION_SETTING, _extended(shown))
    except PySparkException as error:
        condition = error.getCondition() or ""
        if condition == _HIDDEN:
            reason = "this Spark Connect server hides its value (spark.redaction.regex matches it)"
            remedy = f"Add |({SECRETS}) to the value that you set"
        elif condition.startswith(_DECLARATIVE_PIPELINE):
            reason = "the file of a declarative pipeline may not change settings"
            remedy = (
                f"Set it under 'configuration:' in the pipeline's specification, to {_extended(_DEFAULT)!r}"
            )
        else:
            raise
        log.warning(
            "explain(True) of a batch read may print private keys and account keys among its options: setting '%s' "
            "was not extended, because %s. %s.",
            REDACTION_SETTING,
            reason,
            remedy,
        )


def _extended(regex: str) -> str:
    return f"({regex})|({SECRETS})" if regex else SECRETS
