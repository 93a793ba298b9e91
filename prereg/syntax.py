"""YAML 1.2 and JSON text as plain data, with the line of every key and value.

Only what YAML and JSON share is read: mappings, sequences and scalars of YAML's core schema.
Anchors, aliases, merge keys, tags and several documents in one file are refused, because a reader
of the file would not see at once what they stand for. Both readers emit the same events, from which
`_Builder` makes the data; nothing here recurses, so no input can exhaust the stack.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prereg.canonical import MAX_DEPTH
from prereg.events import Event, json_events, refuse, too_deep, yaml_events
from prereg.scalars import Refused, scalar

MAX_BYTES = 1 << 18
"""Size beyond which a file is not a hypothesis file."""

Path = tuple[str | int, ...]
"""Keys and indices that lead from the top of the file to a value."""


class Problem(NamedTuple):
    """One thing that is wrong with a file."""

    line: int
    path: str
    found: str
    expected: str
    fix: str


@dataclass
class Parsed:
    """Plain data, and where in the text everything stands."""

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    """Line of every value."""
    key_lines: dict[Path, int] = field(default_factory=dict)
    """Line of the key that a value stands under."""
    problems: dict[Path, Problem] = field(default_factory=dict)
    """Values that plain data cannot hold; `data` has None in their place."""


def dotted(path: Path) -> str:
    """`path` as people write it.

    >>> dotted(("claims", 2, "over", "sites"))
    'claims[2].over.sites'
    """
    written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return written.removeprefix(".") or "(top level)"


def parse(text: bytes, *, name: str, is_json: bool) -> Parsed:
    """The data in `text`, a YAML or JSON file called `name`.

    Raises:
        InputError: the text is empty, too large, not UTF-8 or not well formed.
    """
    if len(text) > MAX_BYTES:
        raise refuse(
            name, 1, f"more than {MAX_BYTES:,} bytes", "a hypothesis file", "pass the right file"
        )
    letters = _decode(text, name=name)
    if not letters.strip():
        raise refuse(
            name,
            1,
            "an empty file",
            "a hypothesis file",
            f"start from an example: `prebench new SUITE > {name}`",
        )
    events = json_events(letters, name=name) if is_json else yaml_events(letters, name=name)
    return _Builder(name=name).build(events)


def _decode(text: bytes, *, name: str) -> str:
    try:
        return text.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise refuse(
            name,
            line,
            f"the byte 0x{text[error.start]:02x}, which is not UTF-8",
            "text in UTF-8",
            "save the file as UTF-8 text, or pass the right file",
        ) from error


@dataclass
class _Level:
    """A mapping or sequence that is being filled."""

    value: dict[str, Any] | list[Any]
    path: Path
    key: str | None = None
    key_line: int = 0


class _Builder:
    """Plain data from events; problems with single values are collected, not raised."""

    def __init__(self, *, name: str) -> None:
        self.name = name
        self.parsed = Parsed()
        self.levels: list[_Level] = []
        self.started = False

    def build(self, events: Iterator[Event]) -> Parsed:
        for event in events:
            if event.kind in ("}", "]"):
                self.levels.pop()
            elif self._wants_key():
                self._key(event)
            else:
                self._value(event)
        if not self.started:
            raise refuse(
                self.name,
                1,
                "a file without content (only comments)",
                "a hypothesis file",
                f"start from an example: `prebench new SUITE > {self.name}`",
            )
        return self.parsed

    def _wants_key(self) -> bool:
        level = self.levels[-1] if self.levels else None
        return level is not None and isinstance(level.value, dict) and level.key is None

    def _key(self, event: Event) -> None:
        level = self.levels[-1]
        if event.kind not in ("text", "plain"):
            raise refuse(
                self.name, event.line, "a list or mapping as a key", "a name as key", "name it"
            )
        key = unicodedata.normalize("NFC", event.value)
        if event.kind == "plain" and key == "<<":
            raise refuse(
                self.name,
                event.line,
                "<<, a YAML merge key",
                "plain values",
                "write the merged fields out",
            )
        path = (*level.path, key)
        if event.kind == "plain" and not isinstance(scalar(key), str):
            self._problem(
                path, event.line, f"the key {key}", "text as key", f'write "{key}" in quotes'
            )
        if key in level.value:
            first = self.parsed.key_lines[path]
            self._problem(
                path,
                event.line,
                f"the key `{key}` a second time (first on line {first})",
                "each key once",
                "remove one of the two",
            )
        level.key, level.key_line = key, event.line
        self.parsed.key_lines.setdefault(path, event.line)

    def _value(self, event: Event) -> None:
        if self.started and not self.levels:
            raise refuse(
                self.name,
                event.line,
                "a second document",
                "one document in a file",
                "remove the `---` line and what follows",
            )
        self.started = True
        path = self._path()
        self.parsed.lines.setdefault(path, event.line)
        value: Any
        if event.kind == "plain":
            value = scalar(event.value)
            if isinstance(value, Refused):
                self._problem(path, event.line, *value)
                value = None
            elif isinstance(value, str):
                value = self._text(value, path=path, line=event.line)
        elif event.kind == "text":
            value = self._text(event.value, path=path, line=event.line)
        else:
            value = {} if event.kind == "{" else []
        self._place(value)
        if event.kind in ("{", "["):
            if len(self.levels) >= MAX_DEPTH:
                raise too_deep(self.name, event.line)
            self.levels.append(_Level(value, path))

    def _path(self) -> Path:
        if not self.levels:
            return ()
        level = self.levels[-1]
        return (*level.path, len(level.value) if level.key is None else level.key)

    def _place(self, value: Any) -> None:
        if not self.levels:
            self.parsed.data = value
            return
        level = self.levels[-1]
        if isinstance(level.value, list):
            level.value.append(value)
        elif level.key is not None:
            level.value.setdefault(level.key, value)
            level.key = None

    def _text(self, value: str, *, path: Path, line: int) -> str:
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            self._problem(path, line, f"{value!r}, half a character", "text", "remove the escape")
            return "?"
        return unicodedata.normalize("NFC", value)

    def _problem(self, path: Path, line: int, found: str, expected: str, fix: str) -> None:
        self.parsed.problems.setdefault(path, Problem(line, dotted(path), found, expected, fix))
