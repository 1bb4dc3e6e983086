"""Redaction: which options Spark hides when it prints them, for example in ``explain(True)``.

Spark hides a value whose name or text matches ``spark.sql.redaction.options.regex`` or ``spark.redaction.regex``. The
defaults match passwords, secrets, tokens, access keys and URLs, but neither private keys nor account keys.
"""

from __future__ import annotations

import logging

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

REDACTION_SETTING = "spark.sql.redaction.options.regex"

# A Spark Connect server hides a setting whose text matches spark.redaction.regex (Spark 4.2.1 and later). The pattern
# has [t] for t, so that its own text does not match the default of that setting.
SECRETS = (
    r"(?i)jaas|keystore[._]key|private.?key|(account|shared|master|customer).?key|sas[._]|[?&]sig="
    r"|creden[t]ial|user[._]info|connection.?string|certificate[._]?chain|auth.?params|external.?id|-----BEGIN "
)
"""Spark hides an option if this expression matches its name or its value."""

_DEFAULT = "(?i)url"
"""Spark's default value of the setting."""

_HIDDEN = "SQL_CONF_NOT_FOUND"
_DECLARATIVE_PIPELINE = "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"


def hide_secrets(spark: SparkSession) -> None:
    """Adds :data:`SECRETS` to the pattern of options that a session hides. A second call changes nothing.

    It uses only ``spark.conf``, which sessions of Spark Connect have too. If the setting cannot be read, because the
    server hides it, or cannot be changed, as in a declarative pipeline, a warning has the text to add to it.
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
