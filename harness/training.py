"""From a recipe to a model folder: weights, config, the recipe itself, and what was measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.code_version import library_versions
from harness.data import as_json, load_yaml
from harness.subjects.dyck_config import DyckConfig
from harness.subjects.recipe import Recipe
from harness.subjects.reference import CARD, locate
from prereg.canonical import canonical
from prereg.errors import InputError
from prereg.files import make_folder, write_atomic
from prereg.near import nearest

RECIPE = "recipe.yaml"


def recipes() -> dict[str, Path]:
    """The shipped recipes, by the zoo name of what they train."""
    root = Path(str(resources.files("harness.subjects"))) / "recipes"
    return {
        file.relative_to(root).with_suffix("").as_posix(): file
        for file in sorted(root.rglob("*.yaml"))
    }


def read_recipe(written: str) -> tuple[Recipe, bytes]:
    """A shipped recipe by name, or one from a file.

    Raises:
        InputError: neither exists, or the file is not a recipe.
    """
    shipped = recipes()
    path = shipped.get(written, Path(written))
    if not path.is_file():
        raise InputError(
            f"no recipe {written!r}",
            expected="the name of a shipped recipe, or a recipe file",
            fix=nearest(written, shipped),
            code="recipe.unknown",
        )
    source = path.read_bytes()
    try:
        recipe = Recipe.model_validate_json(as_json(load_yaml(path)))
        DyckConfig.model_validate(recipe.config)
        return recipe, source
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in entry['loc'])}: {entry['msg']}"
            for entry in error.errors()
        )
        raise InputError(
            f"{path}: {problems}",
            expected="a recipe of the form prebench/recipe/1",
            fix=f"compare with the shipped {next(iter(shipped))}",
            code="recipe.malformed",
        ) from error


def train_to(
    written: str,
    folder: Path,
    *,
    trainer_options: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Trains a recipe and writes config.json, model.safetensors, recipe.yaml and card.json.

    Returns:
        The card: recipe name, weight digest, accuracy of each head on fresh sequences, seconds,
        threads and library versions.

    Raises:
        InputError: the recipe is unknown or malformed, or the folder holds something already.
    """
    recipe, source = read_recipe(written)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder} exists and is not an empty folder",
            expected="a new or empty folder for the model",
            fix="choose another --to",
            code="train.target-exists",
        )
    make_folder(folder)

    from harness.runners.train import accuracies, train
    from harness.subjects.loading import save_subject

    progress(f"training {recipe.name}: {recipe.steps:,} steps of {recipe.batch} sequences")
    begun = time.monotonic()
    model = train(
        recipe,
        keep=lambda step, weights: save_subject(
            DyckConfig.model_validate(recipe.config), weights, folder / f"step-{step}"
        ),
        **dict(trainer_options or {}),
    )
    seconds = time.monotonic() - begun
    progress(f"testing on {recipe.evaluation_sequences:,} fresh sequences")
    measured = accuracies(
        model,
        seed=recipe.evaluation_seed,
        sequences=recipe.evaluation_sequences,
        task=recipe.task,
    )
    save_subject(model.config, model.state_dict(), folder)
    write_atomic(folder / RECIPE, source)
    card = _card(recipe, folder, accuracy=measured, seconds=seconds)
    write_atomic(folder / CARD, canonical(card) + b"\n")
    return card


def _card(
    recipe: Recipe, folder: Path, *, accuracy: Mapping[str, float], seconds: float
) -> dict[str, Any]:
    """What a trained folder holds, and what was measured on it."""
    from harness.runners.trainer import set_threads

    def weights(reference: str) -> str:
        return locate(reference).resolved.weights

    card: dict[str, Any] = {
        "card": "prebench/card/1",
        "name": recipe.name,
        "weights": weights(f"path:{folder}"),
        "sequences": recipe.steps * recipe.batch,
        "task": recipe.task,
        "accuracy": dict(accuracy),
        "accuracy_on": f"{recipe.evaluation_sequences} fresh standard sequences, "
        f"seed {recipe.evaluation_seed}, share of non-padding positions",
        "seconds": round(seconds),
        "threads": set_threads(),
        "libraries": library_versions(),
    }
    for role in ("start", "teacher", "shared_io"):
        named = getattr(recipe, role)
        if named is not None:
            card[role] = weights(named)
    if recipe.checkpoints:
        card["checkpoints"] = {
            f"step-{step}": weights(f"path:{folder / f'step-{step}'}")
            for step in recipe.checkpoints
        }
    return card
