"""Reading a folder that a stranger made: plain files, nothing outside it, nothing too large."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

LARGEST = 1 << 30
"""Bytes of the largest file that is read."""
MOST_FILES = 1_000


def read_folder(folder: Path, problems: list[str]) -> dict[str, bytes]:
    """The bytes of every file below `folder`, by path with forward slashes.

    Links, devices and pipes are never opened, and what is wrong is added to `problems`.
    """
    data: dict[str, bytes] = {}
    try:
        if folder.is_symlink() or not folder.is_dir():
            problems.append(f"{folder}: not a folder; a bundle is the folder that was published")
            return data
        for entry in _walk(folder):
            name = Path(entry.path).relative_to(folder).as_posix()
            if len(data) >= MOST_FILES:
                problems.append(f"{folder}: more than {MOST_FILES} files; a bundle has a few dozen")
                return data
            read = _read(entry, name, problems)
            if read is not None:
                data[name] = read
    except OSError as error:
        problems.append(f"{error.filename or folder}: cannot be read ({error.strerror})")
    return data


def _walk(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Everything below a folder but the folders, in order of name; links are not followed."""
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path))
        else:
            yield entry


def _read(entry: os.DirEntry[str], name: str, problems: list[str]) -> bytes | None:
    state = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(state.st_mode):
        kind = "a link" if stat.S_ISLNK(state.st_mode) else "no plain file"
        problems.append(f"{name}: {kind}; a bundle holds plain files only")
        return None
    if state.st_size > LARGEST:
        problems.append(f"{name}: {state.st_size} bytes, more than is ever published")
        return None
    return Path(entry.path).read_bytes()
