"""The ledger: what happened in a workspace, in an append-only, hash-chained file.

One line an event (`prereg.chain`), one file a workspace, one writer at a time. A write that fails
leaves the old lines as they were. A crash can leave an unfinished last line: readers report it and
go on without it, and the next writer moves it aside, so that nothing is lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from prereg.chain import GENESIS, Entry, EventName, broken, entry, verify_chain
from prereg.errors import EnvironmentFault
from prereg.files import fault, make_folder, sync_folder, write_atomic

__all__ = ["GENESIS", "Contents", "Entry", "EventName", "Ledger", "verify_chain"]

PATIENCE = 60.0
"""Seconds that a writer waits for another one."""


class Contents(NamedTuple):
    """What a ledger file holds: verified entries, and the unfinished line that a crash left."""

    entries: tuple[Entry, ...]
    torn: bytes

    @property
    def head(self) -> str:
        """Hash of the last entry; zeros where there is none."""
        return self.entries[-1].hash if self.entries else GENESIS


class Ledger:
    """An append-only, hash-chained file.

    Args:
        path: the file; it and its folder are made by the first append.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        # The operating system drops this kind of lock with the process, however that ends.
        self._lock = FileLock(self.path.with_suffix(".lock"), timeout=PATIENCE, thread_local=False)

    def read(self) -> Contents:
        """Verified entries, and what is left of an unfinished last line.

        Raises:
            IntegrityError: a line was altered, dropped, duplicated or reordered.
            EnvironmentFault: the file cannot be read.
        """
        return self._contents(self._bytes())

    def entries(self) -> tuple[Entry, ...]:
        """The verified entries, oldest first; an unfinished last line is left out (`read`)."""
        return self.read().entries

    def head(self) -> str:
        """Hash of the last entry; zeros where there is none."""
        return self.read().head

    def snapshot(self) -> bytes:
        """The verified lines as bytes, from genesis: what a bundle carries."""
        return b"".join(one.line for one in self.entries())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the writer's lock, to read and append in one step; appending inside it is fine.

        Raises:
            EnvironmentFault: the folder cannot be written, or another writer does not finish.
        """
        make_folder(self.path.parent)
        try:
            self._lock.acquire()
        except Timeout as error:
            raise EnvironmentFault(
                f"another process has held {self._lock.lock_file} for {PATIENCE:g} s",
                expected="one writer at a time, for a moment",
                fix="wait for it, or end it, then repeat the command",
                code="environment.locked",
            ) from error
        except OSError as error:
            raise fault(error, self.path) from error
        try:
            yield
        finally:
            self._lock.release()

    def append(
        self, event: EventName, body: dict[str, Any], *, at: datetime | None = None
    ) -> Entry:
        """Append an entry, flushed to the disk, and return it.

        Args:
            event: what happened.
            body: plain data, digests and small facts.
            at: time of the entry; now by default.

        Raises:
            IntegrityError: the ledger does not hold; nothing is appended to it.
            InputError: the event is unknown or the body is not plain data.
            EnvironmentFault: the entry could not be written; the ledger is as it was.
        """
        with self.locked():
            contents = self.read()
            last = contents.entries[-1] if contents.entries else None
            new = entry(event, body, after=last, at=at)
            if contents.torn:
                self._move_aside(contents.torn)
            self._write(new.line)
            return new

    def _bytes(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise fault(error, self.path) from error

    def _contents(self, data: bytes) -> Contents:
        end = data.rfind(b"\n") + 1
        entries = verify_chain(data[:end])
        if _has_garbage(data[end:]):
            raise broken(
                len(entries) + 1,
                "text after the end of the entry",
                "a newline after every line",
                kind="garbage",
            )
        return Contents(entries, data[end:])

    def _move_aside(self, torn: bytes) -> None:
        """Keep the unfinished line in a file of its own, then cut it off."""
        number = 1
        while (aside := self.path.with_name(f"{self.path.stem}.torn-{number}")).exists():
            number += 1
        write_atomic(aside, torn)
        try:
            with self.path.open("r+b") as stream:
                stream.truncate(self.path.stat().st_size - len(torn))
                os.fsync(stream.fileno())
        except OSError as error:
            raise fault(error, self.path) from error

    def _write(self, line: bytes) -> None:
        try:
            new = not self.path.exists()
            # Unbuffered, so that closing the file has nothing left to write (and to fail at).
            with self.path.open("ab", buffering=0) as stream:
                length = os.fstat(stream.fileno()).st_size
                try:
                    written = 0
                    while written < len(line):
                        written += stream.write(line[written:])
                    os.fsync(stream.fileno())
                except OSError:
                    with suppress(OSError):
                        stream.truncate(length)
                        os.fsync(stream.fileno())
                    raise
            if new:
                sync_folder(self.path.parent)
        except OSError as error:
            raise fault(error, self.path) from error


def _has_garbage(tail: bytes) -> bool:
    """Whether an unfinished line is a whole entry with something behind it: no crash does that."""
    try:
        text = tail.decode("utf-8", errors="replace")
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return bool(text[end:].strip("\0"))
