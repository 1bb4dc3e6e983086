"""``subscribePattern`` means the same as in Spark: it is a regular expression of Java and not of Python."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from flip27_stream.connectors.kafka.options.java_character_classes import JavaPatternError
from flip27_stream.connectors.kafka.options.java_patterns import compile_java_pattern

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = [
    *(
        "a",
        "aa",
        "ab",
        "aB",
        "Ab",
        "AB",
        "abc",
        "a1",
        "a10",
        "aa0",
        "aaaa",
        "ma",
        "mm",
        "clicks",
        "Clicks",
        "orders.v1",
    ),
    *"abmzAMZ019_-.&",
    *("a.b", "a-b", "axb", "a.c", "11", "a]", "[a", "a&b"),
]

PATTERNS = {
    # Classes: unions, intersections, complements.
    "[a-z&&[^m]]": "a b z",
    "[a-z&&[^m]]+": "a aa ab abc b z axb aaaa clicks",
    "[a-z&&abm]": "a b m",
    r"[\w&&[^\d]]": "a b m z A M Z _",
    "[^a-z&&[^m]]": "m A M Z 0 1 9 _ - . &",
    "[a[bm]]": "a b m",
    "[^a[bm]]": "z A M Z 0 1 9 _ - . &",
    "[a-b[y-z]&&[az]]": "a z",
    "[]a]+": "a aa aaaa a]",
    r"[\[a]+": "a aa aaaa [a",
    "[a&b]+": "a aa ab b aaaa a&b &",
    "[a-]+b": "ab a-b",
    r"[\w.&&[^A-Z]]+": "a aa ab abc a1 a10 aa0 b m z 0 1 9 11 _ . a.b axb a.c ma mm clicks orders.v1 aaaa",
    # Predefined classes, POSIX and Unicode.
    r"\p{Lower}": "a b m z",
    r"\P{Lower}": "A M Z 0 1 9 _ - . &",
    r"\p{Lu}\p{IsL}": "Ab AB",
    r"\pL\pN": "a1",
    r"[\p{Alpha}&&[^\p{Upper}]]": "a b m z",
    r"(?i)\p{Lower}": "a b m z A M Z",
    r"(?i)\p{Lu}": "a b m z A M Z",
    r"\p{Punct}": "_ - . &",
    r"\w\H": "aa ab aB Ab AB a1 11 ma mm a]",
    # Quotes and escapes.
    r"\Qa.b\E": "a.b",
    r"\Qa.\E.": "a.b a.c",
    r"a\Q.b": "a.b",
    r"[\Q]a\E]+": "a aa aaaa a]",
    r"\x61\u0062\x{63}": "abc",
    r"\0141\N{LATIN SMALL LETTER B}": "ab",
    r"a\.b|a\-b": "a.b a-b",
    # Groups and references.
    r"(?<first>a)\k<first>": "aa",
    r"(?<x>[a-z])(?<y>\d)0": "a10",
    r"(a)\10": "aa0",
    "(?:a|b){2}": "aa ab",
    "(?!a).b": "Ab",
    ".(?<!a)b": "Ab",
    # Flags, which hold to the end of their group.
    "(?i)AB": "ab aB Ab AB",
    "a(?i)b": "ab aB",
    "a(?i)b|b|m": "ab aB b m M",
    "(?:(?i)a)b": "ab Ab",
    "(?i:a)b": "ab Ab",
    "(?i)a(?-i)b": "ab Ab",
    "(?i-s:A)(?m)b": "ab Ab",
    "(?i)[a&&[^M]]": "a A",
    r"(?i)(a)\1": "aa",
    # Quantifiers.
    "a{2,}": "aa aaaa",
    "a{1,2}?": "a aa",
    "a}?": "a",
    r"\A^a$\z": "a",
}
"""Patterns, and which of the names they match."""

REFUSED = [
    "[a-z&&]",
    "[&&a]",
    "[a&&[b]c&&d]",
    "[a",
    "[z-a]",
    r"[\b]",
    r"[a-\d]",
    "(?P<x>a)",
    "(?#note)a",
    "(?x)a b",
    "(?u)a",
    "(?<1>a)",
    r"\ya",
    r"\Ga",
    r"a\E",
    r"\p{Nonsense}",
    r"\p{javaLowerCase}",
    r"\p",
    r"\b{g}",
    r"\x{110000}",
    r"\N{NO SUCH CHARACTER}",
    r"\k<x>",
    "a{,2}",
    "{2}",
    "*a",
    "a**",
    "a{2}{3}",
    "a)",
    "(a",
    "(?i",
    "a\\",
]


def test_a_pattern_matches_the_names_that_java_matches() -> None:
    found = {p: {n for n in NAMES if compile_java_pattern(p).fullmatch(n)} for p in PATTERNS}
    assert found == {pattern: set(names.split()) for pattern, names in PATTERNS.items()}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has neither; there they are refused")
@pytest.mark.parametrize(
    ("pattern", "names"), [("a*+b", "b ab"), ("a++a", ""), ("(?>a|ab)c", ""), ("a{1,2}+0", "aa0")]
)
def test_possessive_quantifiers_and_atomic_groups_do_not_backtrack(pattern: str, names: str) -> None:
    assert {n for n in NAMES if compile_java_pattern(pattern).fullmatch(n)} == set(names.split())


@pytest.mark.parametrize("pattern", REFUSED)
def test_patterns_that_cannot_be_translated_are_refused(pattern: str) -> None:
    """A pattern is refused that Java refuses, that only Python has, or that is not translated. No pattern is read
    with another meaning.
    """
    with pytest.raises((JavaPatternError, re.error)):
        compile_java_pattern(pattern)


@pytest.mark.jvm
def test_java_matches_the_same_names(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    found = {}
    for pattern in PATTERNS:
        compiled = jvm.java.util.regex.Pattern.compile(pattern)
        found[pattern] = {name for name in NAMES if compiled.matcher(name).matches()}
    assert found == {pattern: set(names.split()) for pattern, names in PATTERNS.items()}
