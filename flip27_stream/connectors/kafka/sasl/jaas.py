"""Parses ``sasl.jaas.config``. The text has a password, so no message repeats the text."""

from __future__ import annotations

import re

from flip27_stream.errors import OptionError

_OPTION = "kafka.sasl.jaas.config"
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/"""
    r"""|(?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<word>[^\s"'=;/]+)"""
    r"""|(?P<mark>[=;])""",
    re.DOTALL,
)
_FLAGS = ("required", "requisite", "sufficient", "optional")
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


def parse_password(text: str, mechanism: str, module: str) -> tuple[str, str]:
    """Returns the user name and the password. Arguments and errors are those of :func:`parse_jaas`."""
    given = parse_jaas(text, mechanism, module)
    if given.get("tokenauth", "false").lower() == "true":
        raise OptionError(
            f"Option '{_OPTION}' sets tokenauth: delegation tokens are not supported. Give a user's name and password."
        )
    if "username" not in given or "password" not in given:
        raise OptionError(f"Option '{_OPTION}' must set username and password.")
    return given["username"], given["password"]


def parse_jaas(text: str, mechanism: str, module: str) -> dict[str, str]:
    """Returns the options of the login module, by name.

    Args:
        text: Such as ``org.apache...PlainLoginModule required username="me" password="...";``.
        mechanism: The SASL mechanism, for messages.
        module: The simple name of the login module of the mechanism.

    Raises:
        OptionError: The text is not of that form, or names another login module.
    """
    tokens = _tokens(text)
    words, marks = [t for _, t in tokens], [t if kind == "mark" else "" for kind, t in tokens]
    if len(tokens) < 3 or words[1].lower() not in _FLAGS or marks[-1] != ";" or ";" in marks[:-1]:
        raise _malformed(module)
    name = words[0].rpartition(".")[2]
    if name != module:
        shown = f"the login module {name}" if name.endswith("LoginModule") else "no known login module"
        raise OptionError(
            f"Option '{_OPTION}' names {shown}; option 'kafka.sasl.mechanism' {mechanism} needs {module}."
        )
    if len(tokens) % 3 or marks[2:] != ["", "=", ""] * (len(tokens) // 3 - 1) + [";"]:
        raise _malformed(module)
    return dict(zip(words[2:-1:3], words[4:-1:3], strict=True))


def _tokens(text: str) -> list[tuple[str, str]]:
    """Returns the tokens of a text, each as its kind and its text, without quotes and comments."""
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise OptionError(
                f"Option '{_OPTION}' cannot be parsed at character {at + 1}; is a quote missing?"
            )
        kind, at = match.lastgroup, match.end()
        if kind == "word" and text[match.start() - 1 : match.start()] in ("'", '"'):
            raise OptionError(
                f"Option '{_OPTION}' has a word directly after a quote, at character {match.start() + 1}. "
                "Separate options by blanks; write a quote inside of a value with a backslash before it."
            )
        if kind == "quoted":
            tokens.append((kind, _ESCAPE.sub(_unescaped, match[0][1:-1])))
        elif kind is not None:
            tokens.append((kind, match[0]))
    return tokens


def _unescaped(escape: re.Match[str]) -> str:
    what = escape[1]
    return chr(int(what, 8)) if what[0] in "01234567" else _ESCAPES.get(what, what)


def _malformed(module: str) -> OptionError:
    return OptionError(
        f"Option '{_OPTION}' is not of the form: <package>.{module} required name=\"value\" ...; (one login module, "
        "with a semicolon at its end, and without the braces of a JAAS file)."
    )
