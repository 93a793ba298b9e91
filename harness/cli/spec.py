"""What `prebench models REF --spec` shows: the constructive spec of one model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from harness.cli.output import emit, table
from prereg.errors import InputError

if TYPE_CHECKING:
    from harness.corpora.dyck3 import Task
    from harness.subjects.spec import Spec

SAMPLES = 256
"""Sequences that a spec is measured on, unless told otherwise."""

_BLOCK = 16  # samples that stay together in a batch


def show_spec(reference: str, *, samples: int, seed: int, as_json: bool) -> None:
    """Measures the spec of a model and prints it.

    Args:
        reference: `zoo:NAME` or `path:FOLDER`.
        samples: how many sequences, the first of the split `fit`.
        seed: their corpus seed.
        as_json: one JSON object in the place of the text.

    Raises:
        InputError: no such model, too few or too many sequences, or states that are not finite.
    """
    from harness.subjects.reference import locate

    found = locate(reference)
    task = task_of(found.folder)
    _check_samples(samples)
    from harness.corpora.block import SampleRange
    from harness.corpora.dyck3 import Dyck3
    from harness.runners.spec import constructive_spec
    from harness.runners.trainer import set_threads
    from harness.subjects.loading import load

    set_threads()
    spec = constructive_spec(
        load(found),
        corpus=Dyck3(seed, task=task),
        samples=SampleRange("fit", 0, samples),
        block_size=_BLOCK,
        trainer_options={},
    )
    emit(
        {
            "reference": reference,
            "weights": found.resolved.weights,
            "corpus": {"name": "dyck3", "seed": seed, "task": task, "split": "fit"},
            "spec": spec.model_dump(mode="json"),
        },
        as_json=as_json,
        text=lambda: "\n".join(
            (
                f"{reference}: {found.architecture.name}, {spec.parameters:,} parameters",
                f"weights {found.resolved.weights}",
                f"measured on {spec.samples:,} sequences of dyck3 (seed {seed}, {task} task), "
                f"{spec.tokens:,} tokens",
                f"norm gains folded in fp64: no logit changed by more than {spec.folding:.1e}",
                *_tables(spec),
            )
        ),
    )


def task_of(folder: Path) -> Task:
    """The task whose labels the model in a folder has learnt: the standard one without a card.

    A checkpoint has no card of its own; the one beside its folder names it.

    Raises:
        InputError: a card that is damaged, or names another task.
    """
    from harness.corpora.dyck3 import Task
    from harness.subjects.reference import CARD

    for file in (folder / CARD, folder.parent / CARD):
        if not file.is_file():
            continue
        card = _card(file)
        if file.parent == folder or folder.name in card.get("checkpoints", {}):
            known: tuple[Task, ...] = get_args(Task)
            for task in known:
                if task == card.get("task"):
                    return task
            raise _bad_card(f"the task {card.get('task')!r} in {file}", f"one of {known}")
    return "standard"


def _card(file: Path) -> dict[str, Any]:
    try:
        card = json.loads(file.read_bytes())
    except ValueError as error:
        raise _bad_card(f"{file}, which is not JSON", "the card of a model") from error
    if not isinstance(card, dict):
        raise _bad_card(f"{file}, which is not an object", "the card of a model")
    return card


def _bad_card(found: str, expected: str) -> InputError:
    return InputError(
        found,
        expected=expected,
        fix="restore the card that `prebench train` wrote, or remove it for the standard task",
        code="subject.bad-card",
    )


def _check_samples(samples: int) -> None:
    """Refuses what the corpus cannot give, before anything heavy is imported."""
    from harness.corpora.block import SPLIT_STRIDE

    if samples > SPLIT_STRIDE:
        raise InputError(
            f"{samples} samples for a spec",
            expected=f"at most {SPLIT_STRIDE}, which is what a split holds",
            fix="ask for fewer samples",
            code="corpus.too-large",
        )


def _tables(spec: Spec) -> tuple[str, ...]:
    heads = [
        (
            head.component,
            f"{head.qk_norm:.4g}",
            _or_dash(head.qk_rank, ".2f"),
            f"{head.ov_norm:.4g}",
            _or_dash(head.ov_rank, ".2f"),
        )
        for head in spec.heads
    ]
    mlps = [(mlp.component, mlp.neurons, mlp.alive, f"{mlp.norm:.4g}") for mlp in spec.mlps]
    features = spec.features
    rows = [
        (site, *(_or_dash(value, ".3f") for value in row))
        for site, row in zip(features.sites, features.r2, strict=True)
    ]
    return (
        "",
        table(heads, header=("attention head", "QK norm", "QK rank", "OV norm", "OV rank")),
        "norm: Frobenius, of W_Q W_K^T and W_V W_O; rank: exp of the entropy of the normalised "
        "squared",
        "singular values; - the product is zero",
        "",
        table(mlps, header=("MLP", "neurons", "alive", "norm")),
        "alive: above zero on at least one token; norm: sqrt(sum_i |in_i|^2 |out_i|^2) over "
        "neurons i",
        "",
        table(rows, header=("R^2 at site", *features.names)),
        "R^2: of the linear prediction of a feature from the states at a site, fitted on one half "
        "of the",
        "sequences and evaluated on the other (below 0: worse than the mean); - it does not vary",
    )


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
