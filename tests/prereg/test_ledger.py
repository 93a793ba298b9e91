from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prereg.canonical import canonical, sha256
from prereg.chain import GENESIS, entry, verify_chain
from prereg.errors import EnvironmentFault, InputError, IntegrityError
from prereg.ledger import Ledger

NOON = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)


def lines(count: int) -> list[bytes]:
    made: list[bytes] = []
    last = None
    for index in range(count):
        last = entry("override", {"n": index, "reason": "because"}, after=last, at=NOON)
        made.append(last.line)
    return made


LINES = lines(5)
WHOLE = b"".join(LINES)


def refused(data: bytes) -> IntegrityError:
    with pytest.raises(IntegrityError) as caught:
        verify_chain(data)
    assert caught.value.fix
    return caught.value


# --- the chain ------------------------------------------------------------------------------------


def test_what_a_line_is() -> None:
    line = json.loads(LINES[1])
    assert sorted(line) == ["at", "body", "event", "hash", "prev", "seq"]
    assert line["seq"] == 1
    assert line["prev"] == json.loads(LINES[0])["hash"]
    assert json.loads(LINES[0])["prev"] == "0" * 64
    assert line["at"] == "2026-12-01T12:00:00+00:00"
    unsigned = {key: value for key, value in line.items() if key != "hash"}
    assert line["hash"] == sha256(canonical(unsigned))


def test_a_good_chain() -> None:
    entries = verify_chain(WHOLE)
    assert [one.seq for one in entries] == [0, 1, 2, 3, 4]
    assert b"".join(one.line for one in entries) == WHOLE
    assert verify_chain(b"") == ()


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
@settings(deadline=None, max_examples=300)
def test_any_changed_byte_is_noticed(place: int, flip: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[place] ^= flip
    refused(bytes(damaged))


@given(st.permutations(range(5)).filter(lambda order: list(order) != [0, 1, 2, 3, 4]))
@settings(deadline=None)
def test_any_other_order_is_noticed(order: list[int]) -> None:
    error = refused(b"".join(LINES[index] for index in order))
    assert error.code == "ledger.reordered"


@given(st.sets(st.integers(0, 3), min_size=1))
@settings(deadline=None)
def test_any_dropped_line_is_noticed(dropped: set[int]) -> None:
    error = refused(b"".join(line for i, line in enumerate(LINES) if i not in dropped))
    assert error.code == "ledger.dropped"
    assert f"line {min(dropped) + 1} of the ledger" in error.found


@given(st.integers(0, 4), st.integers(0, 4))
@settings(deadline=None)
def test_any_duplicated_line_is_noticed(which: int, where: int) -> None:
    if where < which:
        where, which = which, where
    copies = [*LINES[: where + 1], LINES[which], *LINES[where + 1 :]]
    error = refused(b"".join(copies))
    assert error.code == "ledger.duplicated"
    assert f"line {where + 2} of the ledger" in error.found


@given(st.integers(1, len(LINES[4]) - 1))
@settings(deadline=None)
def test_a_torn_last_line_is_an_error_in_a_whole_file(cut: int) -> None:
    assert refused(WHOLE[:-cut]).code == "ledger.torn"


def resigned(change: dict[str, Any]) -> bytes:
    """The last line with fields changed and its hash recomputed, as a forger would."""
    plain = json.loads(LINES[4]) | change
    del plain["hash"]
    return canonical(plain | {"hash": sha256(canonical(plain))}) + b"\n"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"seq": 3}, "ledger.unchained"),
        ({"seq": 7}, "ledger.dropped"),
        ({"prev": "1" * 64}, "ledger.unchained"),
        ({"prev": "x"}, "ledger.altered"),
        ({"event": "forgotten"}, "ledger.altered"),
        ({"extra": 1}, "ledger.altered"),
        ({"at": "2026-12-01 12:00"}, "ledger.altered"),
        ({"at": "2026-12-01T12:00:00+02:00"}, "ledger.altered"),
        ({"seq": True}, "ledger.altered"),
        ({"body": [1]}, "ledger.altered"),
    ],
)
def test_a_line_that_was_signed_anew(change: dict[str, Any], code: str) -> None:
    assert refused(b"".join(LINES[:4]) + resigned(change)).code == code


def test_an_early_line_that_was_signed_anew_breaks_the_next() -> None:
    plain = json.loads(LINES[1]) | {"body": {"n": 9}}
    del plain["hash"]
    forged = canonical(plain | {"hash": sha256(canonical(plain))}) + b"\n"
    error = refused(b"".join([LINES[0], forged, *LINES[2:]]))
    assert error.code == "ledger.unchained"
    assert "line 3 of the ledger" in error.found


@pytest.mark.parametrize(
    "tail",
    [
        b"\n",
        b"null\n",
        b"[]\n",
        b"3\n",
        b'"text"\n',
        b"{}\n",
        b"x\n",
        b"\xff\n",
        b"[" * 100_000 + b"\n",
        b"9" * 5000 + b"\n",
        b'{"seq":1e999}\n',
        LINES[4][:-1] + b" \n",
        LINES[4][:-1] + b"\r\n",
        LINES[4].replace(b",", b", "),
    ],
    ids=range(14),
)
def test_other_text_on_a_line(tail: bytes) -> None:
    assert refused(b"".join(LINES[:4]) + tail).code == "ledger.altered"


def test_large_floats_in_a_body_read_back() -> None:
    one = entry("override", {"x": 1e16, "y": 123456789012345678.0}, after=None, at=NOON)
    assert verify_chain(one.line) == (one,)


@pytest.mark.parametrize("body", [{"x": float("nan")}, {"x": 2**60}, {"x": b""}, {1: 2}])
def test_a_body_that_is_not_plain(tmp_path: Path, body: dict[Any, Any]) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    with pytest.raises(InputError):
        ledger.append("override", body)
    assert ledger.entries() == ()


def test_an_unknown_event_and_a_naive_time(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    with pytest.raises(InputError, match="does not read back"):
        ledger.append("forgotten", {})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="offset"):
        ledger.append("override", {}, at=datetime(2026, 1, 1))
    assert not ledger.path.exists()


def test_facts_of_a_body() -> None:
    one = entry("judged", {"verdict": "word", "attempt": 1}, after=None)
    assert one.fact("verdict", str) == "word"
    with pytest.raises(IntegrityError, match="usable `evidence`"):
        one.fact("evidence", str)
    with pytest.raises(IntegrityError, match="usable `attempt`"):
        one.fact("attempt", str)


# --- the file -------------------------------------------------------------------------------------


def test_append_and_read(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "deep" / "ledger.jsonl")
    assert ledger.entries() == ()
    assert ledger.head() == GENESIS
    assert not ledger.path.parent.exists()
    first = ledger.append("registered", {"registration": "a"}, at=NOON)
    second = ledger.append("override", {"x": 0.1}, at=NOON.astimezone(timezone(timedelta(hours=5))))
    assert ledger.entries() == (first, second)
    assert ledger.head() == second.hash
    assert first.at == second.at
    assert ledger.snapshot() == ledger.path.read_bytes() == first.line + second.line


def test_the_clock_is_utc_in_seconds(tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    one = Ledger(tmp_path / "ledger.jsonl").append("override", {})
    assert before <= datetime.fromisoformat(one.at) <= datetime.now(UTC)
    assert one.at.endswith("+00:00")


def test_nothing_is_appended_to_a_broken_chain(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b"".join([LINES[0], LINES[2]]))
    with pytest.raises(IntegrityError):
        Ledger(path).append("override", {})
    assert path.read_bytes() == b"".join([LINES[0], LINES[2]])


@pytest.mark.parametrize("cut", [1, 2, 40, len(LINES[4]) - 1])
def test_a_torn_line_is_reported_then_moved_aside(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(WHOLE[:-cut])
    ledger = Ledger(path)
    contents = ledger.read()
    assert len(contents.entries) == 4
    assert contents.torn == LINES[4][:-cut]
    assert ledger.snapshot() == b"".join(LINES[:4])
    assert path.read_bytes() == WHOLE[:-cut]

    new = ledger.append("override", {"after": "the crash"}, at=NOON)
    assert new.seq == 4
    assert (tmp_path / "ledger.torn-1").read_bytes() == LINES[4][:-cut]
    assert path.read_bytes() == b"".join(LINES[:4]) + new.line
    path.write_bytes(path.read_bytes() + b'{"at"')
    ledger.append("override", {}, at=NOON)
    assert (tmp_path / "ledger.torn-2").read_bytes() == b'{"at"'
    assert (tmp_path / "ledger.torn-1").read_bytes() == LINES[4][:-cut]


def test_zeros_after_a_power_cut_are_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(WHOLE + bytes(100))
    assert Ledger(path).read().torn == bytes(100)


@pytest.mark.parametrize("flip", [1, 2, 0x20, 0x80, 0xFF])
def test_a_changed_last_newline_is_not_taken_for_a_crash(tmp_path: Path, flip: int) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(WHOLE[:-1] + bytes([ord("\n") ^ flip]))
    with pytest.raises(IntegrityError, match="after the end of the entry"):
        Ledger(path).entries()


@given(place=st.integers(0, len(WHOLE) - 1), flip=st.integers(1, 255))
@settings(deadline=None, max_examples=200)
def test_any_changed_byte_is_noticed_in_the_file(
    tmp_path_factory: pytest.TempPathFactory, place: int, flip: int
) -> None:
    damaged = bytearray(WHOLE)
    damaged[place] ^= flip
    path = tmp_path_factory.getbasetemp() / "flipped.jsonl"
    path.write_bytes(damaged)
    with pytest.raises(IntegrityError):
        Ledger(path).entries()


@pytest.mark.parametrize("step", ["write", "fsync"])
def test_a_failed_append_leaves_the_old_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(WHOLE)
    real, calls = os.fsync, []

    def full(*_: object) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    if step == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(Ledger, "_write", partial_write(Ledger._write))
    with pytest.raises(EnvironmentFault) as caught:
        Ledger(path).append("override", {})
    assert caught.value.code == "environment.disk-full"
    assert str(path) in caught.value.found
    assert path.read_bytes() == WHOLE
    monkeypatch.setattr(os, "fsync", real)


def partial_write(real: Any) -> Any:
    """`Ledger._write` on a disk that takes ten bytes of the line."""

    class Full(FileIO):
        taken = 0

        def write(self, data: Any) -> int:
            if self.taken:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.taken = super().write(bytes(data)[:10])
            return self.taken

    def write(self: Ledger, line: bytes) -> None:
        class Place(type(self.path)):  # type: ignore[misc]
            def open(self, *_: object, **__: object) -> Full:
                return Full(str(self), "ab")

        self.path = Place(self.path)
        real(self, line)

    return write


def test_a_full_disk_leaves_the_old_lines(small_disk: Path) -> None:
    ledger = Ledger(small_disk / "ledger.jsonl")

    def fill() -> None:
        for index in range(100):
            ledger.append("override", {"n": index, "text": "x" * 2000})

    with pytest.raises(EnvironmentFault) as caught:
        fill()
    assert caught.value.code == "environment.disk-full"
    assert "bytes free" in caught.value.found
    contents = ledger.read()
    assert contents.torn == b""
    assert 5 < len(contents.entries) < 100
    (small_disk / "ledger.lock").unlink(missing_ok=True)


def test_a_first_append_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")

    def refuse(_: int) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(EnvironmentFault, match="read-only"):
        ledger.append("override", {})
    assert ledger.entries() == ()


WRITER = """
import sys
from pathlib import Path
from prereg.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]))
for index in range(50):
    ledger.append("override", {"writer": sys.argv[2], "n": index})
"""


def test_several_writers_make_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(number)])
        for number in range(3)
    ]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    entries = verify_chain(path.read_bytes())
    assert len(entries) == 150
    for number in range(3):
        own = [one.body["n"] for one in entries if one.body["writer"] == str(number)]
        assert own == list(range(50))


def test_a_writer_that_never_finishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prereg.ledger.PATIENCE", 0.05)
    path = tmp_path / "ledger.jsonl"
    first, second = Ledger(path), Ledger(path)
    with first.locked(), pytest.raises(EnvironmentFault, match="another process") as caught:
        second.append("override", {})
    assert caught.value.code == "environment.locked"
    assert second.append("override", {}).seq == 0
