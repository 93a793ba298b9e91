"""Evidence files: canonical JSON lines, a header and then one record a line, sorted by key."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import ValidationError

from harness.judging.evidence import Evidence, EvidenceHeader, EvidenceRecord
from prereg.canonical import canonical, sha256
from prereg.errors import IntegrityError
from prereg.record import Record

R = TypeVar("R", bound=Record)


def evidence_digest(data: bytes) -> str:
    """sha256, in hex, of the bytes of an evidence file."""
    return sha256(data)


def write_evidence(evidence: Evidence) -> bytes:
    """The bytes of an evidence file: each line the canonical form of a record, absent fields out.

    The order of `evidence.records` does not matter; `read_evidence` gives them back sorted by key.

    Raises:
        IntegrityError: if two records have the same statistic, site, pair, arm and case.
    """
    records = sorted(evidence.records, key=_order)
    for before, after in pairwise(records):
        if before.key == after.key:
            raise _twice(after, place="the evidence")
    return b"".join(_line(record) for record in (evidence.header, *records))


def read_evidence(source: str | Path | bytes) -> Evidence:
    """The evidence in a file, or in its bytes.

    Raises:
        IntegrityError: naming the line, for a file that is empty or whose last line is cut off, a
            line that is not strict JSON (NaN, infinities, a name twice), an unknown or misshapen
            field, a record whose blocks repeat, and two records with one key.
    """
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    if not data.endswith(b"\n"):
        _refuse(
            data.count(b"\n") + 1,
            found="a line that is cut off" if data else "an empty file",
            expected="a header and records, each on a whole line",
            code="evidence.truncated",
        )
    lines = data[:-1].split(b"\n")
    header = _parse(EvidenceHeader, lines[0], number=1)
    seen: set[tuple[str | None, ...]] = set()
    records = []
    for number, line in enumerate(lines[1:], start=2):
        record = _parse(EvidenceRecord, line, number=number)
        if record.key in seen:
            raise _twice(record, place=f"line {number}")
        seen.add(record.key)
        if record.blocks is not None and len(set(record.blocks)) != len(record.blocks):
            _refuse(
                number,
                found="a block that is listed twice",
                expected="each block once",
                code="evidence.block-twice",
            )
        records.append(record)
    return Evidence(header=header, records=tuple(sorted(records, key=_order)))


def _line(record: Record) -> bytes:
    return canonical(record.model_dump(mode="json", exclude_none=True)) + b"\n"


def _order(record: EvidenceRecord) -> tuple[tuple[bool, str], ...]:
    return tuple((part is not None, part or "") for part in record.key)


def _parse(kind: type[R], line: bytes, *, number: int) -> R:
    try:
        json.loads(line, object_pairs_hook=_once, parse_constant=_not_a_number)
        return kind.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        _refuse(
            number,
            found=f"{where}: {first['msg']}" if where else first["msg"],
            expected=f"the fields of an {kind.__name__}, finite numbers",
            code="evidence.field",
        )
    except ValueError as error:
        _refuse(number, found=str(error), expected="strict JSON", code="evidence.json")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("a name that stands twice in one object")
    return names


def _not_a_number(name: str) -> NoReturn:
    raise ValueError(f"the number {name}")


def _twice(record: EvidenceRecord, *, place: str) -> IntegrityError:
    key = ", ".join(part for part in record.key if part is not None)
    return IntegrityError(
        f"a second record for ({key}) in {place}",
        expected="one record for each statistic, site, pair, arm and case",
        fix="take the evidence file as the run wrote it, or run again",
        code="evidence.key-twice",
    )


def _refuse(number: int, *, found: str, expected: str, code: str) -> NoReturn:
    raise IntegrityError(
        f"line {number} of the evidence: {found}",
        expected=expected,
        fix="take the evidence file as the run wrote it, or run again",
        code=code,
    )
