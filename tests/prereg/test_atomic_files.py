from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from prereg.errors import EnvironmentFault, Exit
from prereg.files import fault, make_folder, write_atomic


def test_the_new_bytes_replace_the_old(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomic(path, b"old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", b"x")
    (tmp_path / "b").write_bytes(b"x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "environment.disk-full"),
        (errno.EDQUOT, "environment.disk-full"),
        (errno.EROFS, "environment.read-only"),
        (errno.EACCES, "environment.not-permitted"),
        (errno.EPERM, "environment.not-permitted"),
        (errno.EIO, "environment.io"),
    ],
)
def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, step: str, number: int, code: str
) -> None:
    path = tmp_path / "a.json"
    write_atomic(path, b"old")

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os if step == "fsync" else Path, step, refuse)
    with pytest.raises(EnvironmentFault) as caught:
        write_atomic(path, b"new")
    assert caught.value.code == code
    assert caught.value.exit_code == Exit.ENVIRONMENT
    assert str(path) in caught.value.found
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_space_left_is_said(tmp_path: Path) -> None:
    error = fault(OSError(errno.ENOSPC, "full"), tmp_path / "not" / "there")
    assert "bytes free" in error.found


def test_a_fault_is_not_wrapped_twice(tmp_path: Path) -> None:
    error = fault(OSError(errno.EROFS, "read-only"), tmp_path)
    assert fault(error, tmp_path / "other") is error


def test_folders(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(EnvironmentFault):
        make_folder(tmp_path / "file" / "c")
    with pytest.raises(EnvironmentFault):
        write_atomic(tmp_path / "none" / "c", b"x")


def test_a_full_disk(small_disk: Path) -> None:
    path = small_disk / "a"
    write_atomic(path, b"old")
    with pytest.raises(EnvironmentFault) as caught:
        write_atomic(path, bytes(1 << 20))
    assert caught.value.code == "environment.disk-full"
    assert path.read_bytes() == b"old"
    assert list(small_disk.iterdir()) == [path]
