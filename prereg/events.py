"""YAML 1.2 and JSON text as one stream of events, each with its line.

What plain data does not have is refused here: anchors, aliases, tags, directives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from prereg.canonical import MAX_DEPTH
from prereg.errors import InputError


class Event(NamedTuple):
    """A step through the text: `{`, `[`, `}`, `]`, a quoted `text` or a `plain` scalar."""

    kind: Literal["{", "[", "}", "]", "text", "plain"]
    value: str
    line: int


def refuse(name: str, line: int, found: str, expected: str, fix: str) -> InputError:
    """The error for text that cannot be read at all."""
    return InputError(
        f"{name}:{line}: {found}", expected=expected, fix=fix, code="registration.syntax"
    )


# --- YAML -----------------------------------------------------------------------------------------


def yaml_events(letters: str, *, name: str) -> Iterator[Event]:
    """The events of YAML 1.2 text.

    Raises:
        InputError: it is not well formed, or uses what plain data does not have.
    """
    # Late: importing ruamel.yaml takes longer than `log` or `--help` may.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        for event in YAML(typ="safe", pure=True).parse(letters):
            yield from _yaml_event(event, name=name)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        said = " ".join(part for part in (error.context, error.problem) if part)
        raise _malformed(name, line, said) from error
    except YAMLError as error:
        position = getattr(error, "position", 0)
        line = letters.count("\n", 0, position) + 1
        raise _malformed(name, line, str(error).splitlines()[0]) from error
    except (ValueError, OverflowError) as error:
        # The scanner lets bad escapes in double quotes ("\ud800", "\Uffffffff") through to `chr`.
        if isinstance(error, InputError):
            raise
        raise _malformed(name, 1, f"an escape that is no character ({error})") from error


def _malformed(name: str, line: int, said: str) -> InputError:
    if "'\\t'" in said:
        return refuse(name, line, "a tab in the indentation", "spaces", "replace tabs by spaces")
    fix = "correct the line; text with `: `, ` #` or a leading sign needs quotes"
    if "found another document" in said or "document start" in said:
        fix = "keep one document in a file: remove the `---` line and what follows"
    return refuse(name, line, f"text that YAML cannot read: {said}", "well-formed YAML 1.2", fix)


def _yaml_event(event: Any, *, name: str) -> Iterator[Event]:
    kind = type(event).__name__
    line = event.start_mark.line + 1
    if kind == "AliasEvent" or getattr(event, "anchor", None):
        mark = "*" if kind == "AliasEvent" else "&"
        raise refuse(
            name,
            line,
            f"{mark}{event.anchor}, a YAML anchor or alias",
            "plain values",
            "write the value out in both places",
        )
    if kind == "DocumentStartEvent" and (event.tags or event.version not in (None, (1, 2))):
        raise refuse(
            name, 1, "a % directive", "YAML 1.2 without tags", "remove the lines that start with %"
        )
    tag = str(getattr(event, "tag", None) or "")
    if tag:
        raise refuse(
            name,
            line,
            f"the YAML tag {tag}",
            "plain values",
            "remove the tag (what starts with !); put text in quotes",
        )
    if kind == "ScalarEvent":
        yield Event("plain" if event.implicit[0] else "text", str(event.value), line)
    elif kind in _BRACKETS:
        yield Event(_BRACKETS[kind], "", line)


_BRACKETS: dict[str, Literal["{", "[", "}", "]"]] = {
    "MappingStartEvent": "{",
    "MappingEndEvent": "}",
    "SequenceStartEvent": "[",
    "SequenceEndEvent": "]",
}

# --- JSON -----------------------------------------------------------------------------------------

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def json_events(letters: str, *, name: str) -> Iterator[Event]:
    """The events of JSON text.

    Raises:
        InputError: it is not well formed.
    """
    tokens = list(_TOKEN.finditer(letters))
    _check_depth(tokens, letters, name=name)
    try:
        # Only for its syntax: numbers stay text, so that they are read by the same rule as YAML's.
        json.loads(letters, parse_int=str, parse_float=str, parse_constant=str)
    except json.JSONDecodeError as error:
        raise refuse(
            name,
            error.lineno,
            f"text that JSON cannot read: {error.msg} (column {error.colno})",
            "well-formed JSON",
            "correct the line (no comments, no trailing commas, keys in double quotes)",
        ) from error
    line, seen = 1, 0
    for token in tokens:
        line += letters.count("\n", seen, token.start())
        seen = token.start()
        word = token.group()
        if word in _SIGNS:
            yield Event(_SIGNS[word], "", line)
        elif word.startswith('"'):
            yield Event("text", json.loads(word), line)
        elif word not in (",", ":"):
            yield Event("plain", _JSON_WORDS.get(word, word), line)


_SIGNS = {sign: sign for sign in _BRACKETS.values()}
_JSON_WORDS = {"NaN": ".nan", "Infinity": ".inf", "-Infinity": "-.inf"}


def _check_depth(tokens: list[re.Match[str]], letters: str, *, name: str) -> None:
    depth = 0
    for token in tokens:
        if token.group() in ("{", "["):
            depth += 1
            if depth > MAX_DEPTH:
                raise too_deep(name, letters.count("\n", 0, token.start()) + 1)
        elif token.group() in ("}", "]"):
            depth -= 1


def too_deep(name: str, line: int) -> InputError:
    """The error for brackets within brackets within brackets."""
    return refuse(
        name,
        line,
        f"nesting deeper than {MAX_DEPTH} levels",
        "a hypothesis file",
        "close the brackets; no field nests deeper than a handful",
    )
