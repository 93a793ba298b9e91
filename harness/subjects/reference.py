"""References to models, resolved to files, an architecture and a weight digest (no torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from harness.subjects.architecture import Architecture, family
from harness.subjects.dyck_config import DyckConfig
from harness.subjects.weights_file import StoredTensor, read_tensors, weight_digest
from prereg.canonical import digest
from prereg.errors import InputError
from prereg.near import nearest
from prereg.resolved import ResolvedSubject

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "card.json"


@dataclass(frozen=True)
class Located:
    """A model on disk: what it is, checked for shape and finiteness, but not loaded."""

    folder: Path
    config: DyckConfig
    architecture: Architecture
    tensors: Mapping[str, StoredTensor]
    resolved: ResolvedSubject


def zoo() -> dict[str, Path]:
    """Folder of every shipped model, by zoo name."""
    root = Path(str(resources.files("harness.subjects"))) / "zoo"
    folders = sorted(path.parent for path in root.rglob(WEIGHTS))
    return {folder.relative_to(root).as_posix(): folder for folder in folders}


def locate(written: str) -> Located:
    """The model that a reference means.

    Args:
        written: `zoo:NAME` or `path:FOLDER` (a folder with config.json and model.safetensors).

    Raises:
        InputError: unknown kind or name, or a folder that does not hold such a model.
    """
    kind, separator, rest = written.partition(":")
    if not separator or kind not in ("zoo", "path") or not rest:
        raise InputError(
            f"the model reference {written!r}",
            expected="zoo:NAME or path:FOLDER",
            fix="see `prebench models` for the names of shipped models",
            code="subject.bad-reference",
        )
    if kind == "zoo":
        shipped = zoo()
        if rest not in shipped:
            raise InputError(
                f"no shipped model {written!r}",
                expected="a name that `prebench models` lists",
                fix=nearest(written, (f"zoo:{name}" for name in shipped)),
                code="subject.unknown-model",
            )
        return _open(shipped[rest], written=written, kind="zoo")
    return _open(Path(rest), written=written, kind="path")


def _open(folder: Path, *, written: str, kind: str) -> Located:
    config = _config(folder)
    architecture = Architecture(family(config.architecture), config.model_dump())
    tensors = read_tensors(folder / WEIGHTS)
    _check_shapes(folder / WEIGHTS, tensors, architecture)
    resolved = ResolvedSubject.model_validate(
        {
            "written": written,
            "kind": kind,
            "architecture": architecture.name,
            "config": digest(config.model_dump(mode="json")),
            "weights": weight_digest(tensors),
        }
    )
    return Located(folder, config, architecture, tensors, resolved)


def _config(folder: Path) -> DyckConfig:
    path = folder / CONFIG
    try:
        return DyckConfig.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(
            f"no file {path}",
            expected="a model folder with config.json and model.safetensors",
            fix="point the reference at a folder that `prebench train` wrote",
            code="subject.no-config",
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InputError(
            f"{path}: {where}: {first['msg']}",
            expected="the config of a Dyck transformer",
            fix="correct config.json, or use a model of a supported architecture",
            code="subject.bad-config",
        ) from error


def _check_shapes(
    path: Path, tensors: Mapping[str, StoredTensor], architecture: Architecture
) -> None:
    shapes = architecture.shapes
    missing, unexpected = sorted(set(shapes) - set(tensors)), sorted(set(tensors) - set(shapes))
    wrong = [
        f"{name} {tensors[name].shape} instead of {shapes[name]}"
        for name in sorted(set(shapes) & set(tensors))
        if tensors[name].shape != shapes[name]
    ]
    if missing or unexpected or wrong:
        parts = (("missing", missing), ("unexpected", unexpected), ("of another shape", wrong))
        raise InputError(
            f"{path}: tensors "
            + "; ".join(f"{label}: {', '.join(names[:4])}" for label, names in parts if names),
            expected=f"the tensors that config.json implies for {architecture.name}",
            fix="use the config.json that was saved with these weights",
            code="subject.wrong-tensors",
        )
