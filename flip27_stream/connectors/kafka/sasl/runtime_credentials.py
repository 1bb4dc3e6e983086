"""The service credentials of Unity Catalog, as runtimes of Databricks give them to Python."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Any, Final

log = logging.getLogger(__name__)

_PLACES: Final = (("databricks.service_credentials", ""), ("databricks.sdk.runtime", "dbutils.credentials."))
"""The modules in which runtimes have ``getServiceCredentialsProvider``, and the attribute path to it."""

MISSING: Final = (
    "runtime of Databricks that has getServiceCredentialsProvider, in module 'databricks.service_credentials' or in "
    "dbutils.credentials; this process has neither."
)
"""The description of the missing function if :func:`credential_providers` returns ``None``, for messages."""


def credential_providers() -> Callable[[str], Any] | None:
    """Returns the runtime's function for the provider of a credential; ``None`` if the runtime has no such function.

    For a credential of Azure the provider has ``get_token``; for one of AWS it is a session of botocore.
    """
    for module, place in _PLACES:
        try:
            found: Callable[[str], Any] = attrgetter(f"{place}getServiceCredentialsProvider")(
                import_module(module)
            )
        except Exception as error:  # noqa: BLE001, PERF203 - other runtimes lack it in their own ways
            log.debug("Module '%s' has no service credentials: %s", module, type(error).__name__)
        else:
            return found
    return None
