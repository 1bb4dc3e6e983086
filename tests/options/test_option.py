"""The model of options: values, defaults, errors, and which values are secret."""

from __future__ import annotations

import re

import pytest

from flip27_stream.connectors.kinesis.options.option_list import OPTIONS as KINESIS
from flip27_stream.connectors.pulsar.options.option_list import OPTIONS as PULSAR
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import BOOLEAN, any_text, one_of, text, whole
from flip27_stream.options.option import Option, canonical_names
from flip27_stream.spark.session.redaction import SECRETS
from tests.documentation.options_page import SECTIONS

ROWS = Option("maxRows", whole(1, 10), "5", "Rows of a batch. More are left to the next one.")
REQUIRED = Option("topic", text("name", "the name of a topic"), None, "Name of a topic. It is required.")
PASSWORD = Option("password", any_text(), None, "A password.", secret=True)

SPARK_DEFAULT = re.compile(r"(?i)secret|password|token|access[.]?key")
"""``spark.redaction.regex`` of Spark 4.2."""

_NAMES_OF_SECRETS = re.compile(
    r"(?i)password|secret|jaas|keystore\.key$|user\.info$|(auth\.|session)token$|externalid$|authparams$"
)


def test_an_option_has_its_value_its_default_or_no_value() -> None:
    assert ROWS.get({"maxrows": " 7 "}) == 7
    assert ROWS.get({}) == ROWS.require({}) == 5
    assert REQUIRED.get({}) is None
    assert (ROWS.is_given({"maxrows": "7"}), ROWS.is_given({})) == (True, False)
    assert PASSWORD.text({"password": " as given "}) == " as given "
    assert canonical_names([ROWS], [PASSWORD]) == {"maxrows": "maxRows", "password": "password"}


def test_a_required_option_is_named_with_its_meaning() -> None:
    with pytest.raises(OptionError, match=r"^Option 'topic' must be set: name of a topic\.$"):
        REQUIRED.require({})


@pytest.mark.parametrize("value", ["", "0", "11", "1.0", "x", "1e1", "9" * 30])
def test_a_number_outside_its_bounds_names_option_value_and_bounds(value: str) -> None:
    with pytest.raises(OptionError, match=r"'maxRows': .* Allowed: a whole number from 1 to 10"):
        ROWS.get({"maxrows": value})


def test_the_options_page_shows_both_bounds_of_a_number() -> None:
    assert whole(1, 100).words == "whole number from 1 to 100"
    assert whole(-1, 2**31 - 1).words == "whole number from -1 to 2147483647"
    assert whole(0).words == "whole number from 0"  # any 64-bit number


def test_words_are_taken_in_any_case_and_listed() -> None:
    kind = one_of({"FAILFAST": False, "DROPMALFORMED": True})
    assert kind.parse(" failFast ", "mode") is False
    assert kind.words == "`FAILFAST` or `DROPMALFORMED`"
    with pytest.raises(OptionError, match=r"'mode': 'x'\. Allowed: FAILFAST, DROPMALFORMED"):
        kind.parse("x", "mode")
    assert BOOLEAN.words == "`true` or `false`"
    with pytest.raises(OptionError, match=r"'x'\. Allowed: https, an empty value\."):
        one_of({"https": True, "": False}).parse("x", "algorithm")


def test_an_error_about_a_secret_option_does_not_show_its_value() -> None:
    assert "hunter2" not in str(PASSWORD.wrong("hunter2", "Allowed: another one."))
    assert "7" in str(ROWS.wrong("7", "Allowed: fewer."))


def test_spark_hides_the_values_of_all_secret_options() -> None:
    options = [option for known in (*SECTIONS.values(), KINESIS, PULSAR) for option in known]
    secret = {option.name for option in options if option.secret}
    assert {name for name in secret if not (SPARK_DEFAULT.search(name) or re.search(SECRETS, name))} == set()
    named_so = {option.name for option in options if _NAMES_OF_SECRETS.search(option.name)}
    assert named_so == secret
