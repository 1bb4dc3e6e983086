"""Translates Java's regular expressions for Python's ``re``.

Spark passes ``subscribePattern`` to ``java.util.regex.Pattern``. Its syntax (JDK 9 and later) differs from Python's,
and Python does not refuse all expressions that it reads differently: ``[a-z&&[^m]]`` is an intersection of sets in
Java, and a set with ``[`` and ``&`` in Python. Names of topics are ASCII (letters, digits, ``.``, ``_``, ``-``), so
each character class is computed as a set of ASCII characters. Syntax that is not translated is refused with an error
that names it.
"""

from __future__ import annotations

import re
import string
import unicodedata

from flip27_stream.connectors.kafka.options.java_character_classes import (
    ASCII,
    ESCAPES,
    Characters,
    JavaPatternError,
    in_both_cases,
    named_class,
    python_class,
)

_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)|(\\.)", re.DOTALL)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})[?+]?")
_FLAGS = re.compile(r"([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_NAME = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>")
_PROPERTY = re.compile(r"\{([^}]*)\}|(.)", re.DOTALL)
_HEX = re.compile(r"x\{([0-9a-fA-F]+)\}|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
_OCTAL = re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})")
_NAMED = re.compile(r"N\{([^}]*)\}")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_BOUNDARIES = {"b": r"\b", "B": r"\B", "A": r"\A", "z": r"\Z", "Z": r"\Z"}
_LINE_BREAK = r"(?:\r\n|[\n\x0b\f\r])"
_PLAIN_GROUPS = ("?:", "?=", "?!", "?>", "?<=", "?<!")
_FLAGS_FOR_LINES = "dms"  # Names of topics have no line breaks.


def compile_java_pattern(text: str) -> re.Pattern[str]:
    """Returns a pattern that matches the same names of topics as Java's pattern.

    Raises:
        JavaPatternError: Java refuses the pattern, or part of it is not translated.
        re.error: Python refuses the translated pattern.
    """
    return re.compile(_Translation(_without_quotes(text)).run(), re.ASCII)


def _without_quotes(text: str) -> str:
    r"""Returns the pattern without ``\Q`` and ``\E``; the characters between them are escaped."""

    def escaped(match: re.Match[str]) -> str:
        quoted: str | None = match[1]
        return match[0] if quoted is None else "".join(f"\\x{{{ord(c):x}}}" for c in quoted)

    return _QUOTED.sub(escaped, text)


class _Translation:
    """Translates a pattern in one pass from its first character to its last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._groups = 0
        self._any_case = False

    def run(self) -> str:
        translated = self._alternatives()
        if self._at < len(self._text):
            raise self._error("a ) without a (")
        return translated

    def _alternatives(self) -> str:
        """Translates the rest of a group, and restores the flags that held before the group."""
        before, parts = self._any_case, []
        while self._at < len(self._text) and self._peek() != ")":
            parts.append("|" if self._take("|") else self._quantified())
        self._any_case = before
        return "".join(parts)

    def _quantified(self) -> str:
        began = self._at
        atom = self._atom()
        quantifier = self._match(_QUANTIFIER)
        if quantifier is None:
            return atom
        if self._peek() in ("*", "+", "?", "{"):
            raise self._error("a quantifier after a quantifier")
        if not atom:
            raise self._error(f"a quantifier after {self._text[began : quantifier.start()]}")
        return atom + quantifier[0]

    def _atom(self) -> str:
        c = self._next()
        if c == "(":
            return self._group()
        if c == "[":
            return python_class(self._class())
        if c == "\\":
            return self._escape()
        if c in ".^$":
            return c
        if c in "*+?{":
            raise self._error(f"a {c} with nothing to repeat before it")
        return self._literal(c)

    def _literal(self, c: str) -> str:
        characters = in_both_cases(c) if self._any_case else frozenset(c)
        return python_class(characters) if len(characters) > 1 else re.escape(c)

    def _group(self) -> str:
        kind = next((kind for kind in _PLAIN_GROUPS if self._text.startswith(kind, self._at)), None)
        if kind is not None:
            self._at += len(kind)
        elif not self._take("?"):
            kind, self._groups = "", self._groups + 1
        elif (name := self._match(_NAME)) is not None:
            kind, self._groups = f"?P{name[0]}", self._groups + 1
        else:
            return self._flags()
        return f"({kind}{self._rest_of_group()})"

    def _flags(self) -> str:
        """Translates flags, which hold to the end of the enclosing group, or in a group of their own."""
        flags = self._match(_FLAGS)
        if flags is None:
            raise self._error(f"the group (?{self._text[self._at : self._at + 1]}")
        on, off = flags[1], flags[2] or ""
        for flag in on + off:
            if flag not in f"i{_FLAGS_FOR_LINES}":
                raise self._error(f"the flag {flag}")
        before = self._any_case
        self._any_case = (before or "i" in on) and "i" not in off
        if flags[3] == ")":
            return ""
        body = self._rest_of_group()
        self._any_case = before
        return f"(?:{body})"

    def _rest_of_group(self) -> str:
        body = self._alternatives()
        if not self._take(")"):
            raise self._error("a ( without a )")
        return body

    def _escape(self) -> str:
        c = self._peek()
        if (characters := self._escaped_class()) is not None:
            return python_class(characters)
        if (one := self._escaped_character()) is not None:
            return self._literal(one)
        self._at += 1
        if c in _BOUNDARIES and not (c == "b" and self._peek() == "{"):
            return _BOUNDARIES[c]
        if c == "R":
            return _LINE_BREAK
        if c == "k" and (name := self._match(_NAME)) is not None:
            return self._reference(f"(?P={name[1]})")
        if c in string.digits and c:
            return self._reference(f"\\{self._group_number(int(c))}")
        raise self._error(f"\\{c}")

    def _reference(self, reference: str) -> str:
        return f"(?i:{reference})" if self._any_case else f"(?:{reference})"

    def _group_number(self, number: int) -> int:
        """Returns the number of a back reference, with as many digits as there are groups for."""
        while self._peek() in string.digits and self._peek():
            longer = number * 10 + int(self._peek())
            if longer > self._groups:
                break
            self._at += 1
            number = longer
        return number

    def _escaped_class(self) -> Characters | None:
        """Returns the character class after a backslash; ``None`` if the escape is not a class."""
        c = self._peek()
        if c in ESCAPES:
            self._at += 1
            return ESCAPES[c]
        if c not in ("p", "P"):
            return None
        self._at += 1
        name = self._match(_PROPERTY)
        if name is None:
            raise self._error(f"\\{c} without a name")
        found = named_class(name[1] if name[2] is None else name[2])
        found = in_both_cases(found) if self._any_case else found
        return found if c == "p" else ASCII - found

    def _escaped_character(self) -> str | None:
        """Returns the character after a backslash; ``None`` if the escape is not a single character."""
        if (code := self._match(_HEX)) is not None:
            return self._character(int(code[1] or code[2] or code[3], 16))
        if (code := self._match(_OCTAL)) is not None:
            return chr(int(code[1], 8))
        if (name := self._match(_NAMED)) is not None:
            return self._named_character(name[1])
        c = self._peek()
        if c in _CONTROLS:
            self._at += 1
            return _CONTROLS[c]
        if c == "c" and self._at + 1 < len(self._text):
            self._at += 2
            return chr(ord(self._text[self._at - 1]) ^ 64)
        if c and c not in string.ascii_letters + string.digits:
            self._at += 1
            return c
        return None

    def _character(self, code: int) -> str:
        try:
            return chr(code)
        except (ValueError, OverflowError):
            raise self._error(f"the code point U+{code:X}, which does not exist,") from None

    def _named_character(self, name: str) -> str:
        try:
            return unicodedata.lookup(name)
        except KeyError:
            raise self._error(f"a character named {name}") from None

    def _class(self) -> Characters:
        """Returns the characters of a class, from after its opening bracket up to its closing one.

        A class is a union, or an intersection of unions.
        """
        negated, began = self._take("^"), self._at
        found = self._union(began)
        if self._at == began:
            raise self._error("an intersection (&&) with nothing before it")
        while self._take("&&"):
            found &= self._operand()
        if not self._take("]"):
            raise self._error("a [ without a ]")
        return ASCII - found if negated else found

    def _operand(self) -> Characters:
        """Returns the characters of the operand after ``&&``.

        A class beside other characters is refused there, because Java gives it a special meaning.
        """
        began = self._at
        found = self._class() if self._take("[") else self._union(None)
        followed = self._text[self._at :].startswith(("]", "&&"))
        quirk = self._at == began or self._text[began] == "&" or not followed
        if quirk or "[" in self._text[began + 1 : self._at].replace("\\[", ""):
            raise self._error("an intersection (&&) of a class with other characters or classes")
        return found

    def _union(self, first: int | None) -> Characters:
        """Returns the characters up to a closing bracket or ``&&``; a bracket at position ``first`` is a character."""
        found: Characters = frozenset()
        while self._at < len(self._text):
            closes = self._peek() == "]" and self._at != first
            if closes or self._text.startswith("&&", self._at):
                break
            found |= self._class() if self._take("[") else self._range()
        return found

    def _range(self) -> Characters:
        if self._take("\\"):
            if (characters := self._escaped_class()) is not None:
                return characters
            low = self._one_escaped()
        else:
            low = self._next()
        high = low
        if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("", "[", "]"):
            self._at += 1
            high = self._one_escaped() if self._take("\\") else self._next()
        if high < low:
            raise self._error(f"the range {low}-{high}")
        found = frozenset(c for c in ASCII if low <= c <= high)
        return in_both_cases(found) if self._any_case else found

    def _one_escaped(self) -> str:
        c = self._escaped_character()
        if c is None:
            raise self._error(f"\\{self._peek()} in a class")
        return c

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, expected: str) -> bool:
        found = self._text.startswith(expected, self._at)
        self._at += len(expected) if found else 0
        return found

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        self._at = self._at if found is None else found.end()
        return found

    def _error(self, what: str) -> JavaPatternError:
        return JavaPatternError(f"{what} at character {self._at} cannot be used")
