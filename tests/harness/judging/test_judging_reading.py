"""Evidence files: what is written is read back, and nothing else is read."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging import evidence_digest, read_evidence, write_evidence
from prereg.errors import IntegrityError

NUMBERS = st.floats(-1e12, 1e12, allow_nan=False)


def _lines(worlds):
    frozen = worlds.registration(worlds.claim())
    data = write_evidence(worlds.evidence(frozen, worlds.world(0.8), deviations=("numpy 2 -> 3",)))
    return data.split(b"\n")[:-1]


def _joined(lines):
    return b"\n".join(lines) + b"\n"


@settings(deadline=None, max_examples=30)
@given(
    columns=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6),
    draws=st.lists(st.one_of(st.none(), NUMBERS), max_size=6),
    shuffle=st.randoms(use_true_random=False),
)
def test_what_is_written_is_read_back_sorted_whatever_the_order(worlds, columns, draws, shuffle):
    frozen = worlds.registration(worlds.claim())
    total, weight = zip(*columns, strict=True)
    records = [
        worlds.record({"total": total, "weight": weight}, value=0.25),
        worlds.draws_record(draws, case="shuffled"),
        worlds.mean_record(0.5, case="self"),
        worlds.mean_record(0.5, site=None, pair=None),
    ]
    data = write_evidence(worlds.evidence(frozen, records))
    shuffle.shuffle(records)
    assert write_evidence(worlds.evidence(frozen, records)) == data
    back = read_evidence(data)
    assert len(back.records) == len(records)
    assert all(record in records for record in back.records)
    assert write_evidence(back) == data


def test_lines_are_canonical_and_leave_absent_fields_out(worlds):
    header, *records = _lines(worlds)
    assert json.loads(header)["deviations"] == ["numpy 2 -> 3"]
    assert all(b"null" not in line and b": " not in line for line in records)
    assert b'"arm"' not in records[0]


def test_a_path_is_read_like_its_bytes(worlds, tmp_path):
    data = _joined(_lines(worlds))
    path = tmp_path / "evidence.jsonl"
    path.write_bytes(data)
    assert read_evidence(path) == read_evidence(str(path)) == read_evidence(data)
    assert evidence_digest(data) == hashlib.sha256(data).hexdigest()


def _edited(line, **changes):
    plain = json.loads(line)
    plain.update(changes)
    return json.dumps(plain).encode()


@pytest.mark.parametrize(
    ("edit", "code", "place"),
    [
        (lambda lines: _joined(lines)[:-1], "evidence.truncated", "line 7"),
        (lambda lines: _joined(lines)[:-20], "evidence.truncated", "line 7"),
        (lambda lines: b"", "evidence.truncated", "line 1"),
        (lambda lines: _joined(lines[1:]), "evidence.field", "line 1"),
        (lambda lines: _joined([*lines, lines[2]]), "evidence.key-twice", "line 8"),
        (lambda lines: _joined([*lines, b""]), "evidence.json", "line 8"),
        (
            lambda lines: _joined([lines[0], _edited(lines[1], colour="red")]),
            "evidence.field",
            "line 2",
        ),
        (
            lambda lines: _joined([lines[0], _edited(lines[1], value=float("nan"))]),
            "evidence.json",
            "line 2",
        ),
        (
            lambda lines: _joined(
                [lines[0], _edited(lines[1], value=-1234).replace(b"-1234", b"1e999")]
            ),
            "evidence.field",
            "line 2",
        ),
        (
            lambda lines: _joined([lines[0], lines[1].replace(b'"case"', b'"case":"main","case"')]),
            "evidence.json",
            "line 2",
        ),
        (
            lambda lines: _joined([lines[0], _edited(lines[1], value="0.8")]),
            "evidence.field",
            "line 2",
        ),
        (
            lambda lines: _joined([lines[0], _edited(lines[1], blocks=[0] * 40)]),
            "evidence.block-twice",
            "line 2",
        ),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(worlds, edit, code, place):
    with pytest.raises(IntegrityError) as caught:
        read_evidence(edit(_lines(worlds)))
    assert caught.value.code == code
    assert place in caught.value.found


def test_two_records_with_one_key_are_not_written(worlds):
    frozen = worlds.registration(worlds.claim())
    twice = [worlds.mean_record(0.8), worlds.mean_record(0.7)]
    with pytest.raises(IntegrityError, match="second record"):
        write_evidence(worlds.evidence(frozen, twice))
