"""Files that are whole or not there: atomic writes, and a full disk said in plain words."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from prereg.errors import EnvironmentFault

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_READ_ONLY = {errno.EROFS}
_FORBIDDEN = {errno.EACCES, errno.EPERM}


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader, or a crash, sees the old file or the new one.

    A temporary file in the same folder is written, flushed to the disk and renamed over `path`;
    then the folder itself is flushed. Where anything fails the temporary file is removed and the
    old file stays as it was.

    Raises:
        EnvironmentFault: disk full, read-only, not permitted, or any other fault of the machine.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        # Exclusive creation under the caller's umask, as `open(path, "wb")` would have it.
        with temporary.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise fault(error, path) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def make_folder(path: Path) -> None:
    """Make `path` and its parents, durably; an existing folder is left as it is.

    Raises:
        EnvironmentFault: disk full, read-only, not permitted, or a file is in the way.
    """
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            sync_folder(folder.parent)
    except OSError as error:
        raise fault(error, path) from error


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fault(error: OSError, path: Path) -> EnvironmentFault:
    """The error to raise for an `OSError` at `path`; it names the path and the space left."""
    if isinstance(error, EnvironmentFault):
        return error
    if error.errno in _FULL:
        return EnvironmentFault(
            f"no space left to write {path} ({_free(path)})",
            expected="room for the file; what was there before is whole",
            fix="free space on that disk (or raise the quota), then repeat the command",
            code="environment.disk-full",
        )
    if error.errno in _READ_ONLY:
        return EnvironmentFault(
            f"{path} lies on a read-only file system",
            expected="a writable place",
            fix="remount it writable, or choose another folder with --workspace or PREBENCH_HOME",
            code="environment.read-only",
        )
    if error.errno in _FORBIDDEN:
        return EnvironmentFault(
            f"the system does not permit access to {path}",
            expected="permission to read and write it",
            fix="change its owner or mode, or choose another folder with --workspace",
            code="environment.not-permitted",
        )
    return EnvironmentFault(
        f"{path}: {error.strerror or error} ({_free(path)})",
        expected="a file that can be read and written",
        fix="repair what the system reports, then repeat the command",
        code="environment.io",
    )


def _free(path: Path) -> str:
    for place in (path, *path.absolute().parents):
        with suppress(OSError):
            return f"{shutil.disk_usage(place).free:,} bytes free"
    return "free space unknown"
