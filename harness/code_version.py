"""Which code this is: the distribution's version and a digest over its sources."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata, util
from pathlib import Path

from prereg.resolved import ResolvedCode

PACKAGES = ("prereg", "harness", "suites", "reports")
SUFFIXES = frozenset({".py", ".yaml", ".json", ".css", ".j2"})
LIBRARIES = ("torch", "pytorch-lightning", "torchmetrics", "numpy", "scipy", "safetensors")
"""Libraries whose versions can move a measured number."""


@cache
def code_version(suite_package: str = PACKAGES[0]) -> ResolvedCode:
    """Version and sha256 over (path, bytes) of every source and data file, sorted by path.

    The same for a wheel, an editable install and a clone. Shipped models are left out: they have
    digests of their own; and so is prose, which decides nothing.

    Args:
        suite_package: the package of the suite that measures, which may come from elsewhere.
    """
    digest = hashlib.sha256()
    guest = suite_package.partition(".")[0]
    for package in (*PACKAGES, *(() if guest in PACKAGES else (guest,))):
        root = _root(package)
        files = sorted(
            (path.relative_to(root).as_posix(), path)
            for path in root.rglob("*")
            if path.suffix in SUFFIXES and "__pycache__" not in path.parts
        )
        for relative, path in files:
            if not relative.startswith("subjects/zoo/"):
                digest.update(f"{package}/{relative}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return ResolvedCode(version=version(), sha256=digest.hexdigest())


def version() -> str:
    """Version of the installed distribution."""
    return metadata.version("prebench")


def library_versions() -> dict[str, str]:
    """Installed versions of the libraries that can move a measured number."""
    return {name: metadata.version(name) for name in LIBRARIES}


def _root(package: str) -> Path:
    spec = util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"package {package!r} of prebench is not installed")
    return Path(next(iter(spec.submodule_search_locations)))
