"""What the command line prints: text or one JSON object on stdout, everything else on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer

_BIDI = "".join(chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A)))


def add(app: typer.Typer, verb: Callable[..., None]) -> None:
    """Adds a verb; the list of verbs shows what stands before its docstring's first `;` or `:`."""
    short = re.split(r"[;:.]", verb.__doc__ or "", maxsplit=1)[0]
    app.command(short_help=short)(verb)


def printable(text: str) -> str:
    """`text` without what would steer a terminal: controls and direction marks are spelt out."""
    return "".join(
        character
        if character == "\n" or (character.isprintable() and character not in _BIDI)
        else character.encode("unicode_escape").decode()
        for character in text
    )


def emit(value: dict[str, Any], *, as_json: bool, text: Callable[[], str]) -> None:
    """Prints one JSON object, or the text."""
    if as_json:
        print(json.dumps(value, ensure_ascii=False, allow_nan=False))
    else:
        print(printable(text()))


def progress(line: str) -> None:
    """A line about what is being done, on stderr."""
    print(f"· {printable(line)}", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Seconds as they are said: `40 s`, `3 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def table(rows: Iterable[Sequence[object]], *, header: Sequence[str] = ()) -> str:
    """Columns aligned to the left, two spaces apart."""
    lines = [tuple(str(cell) for cell in row) for row in rows]
    if header:
        lines = [tuple(header), *lines]
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
