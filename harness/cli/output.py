"""What the command line prints: text or one JSON object on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

SYMBOLS = {
    "PASS": "✔",
    "FAIL": "✘",
    "NOT_DIAGNOSTIC": "◇",
    "UNDECIDABLE": "∅",
    "INCONCLUSIVE": "?",
}


def emit(value: dict[str, Any], *, as_json: bool, text: Callable[[], str]) -> None:
    """Prints one JSON object, or the text."""
    if as_json:
        print(json.dumps(value, ensure_ascii=False, allow_nan=False))
    else:
        print(text())


def progress(line: str) -> None:
    """A line about what is being done, on stderr."""
    print(f"· {line}", file=sys.stderr, flush=True)


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
