"""The controls of the bars, and the roles that they can have (no torch)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from prereg.resolved import ControlRole, ControlSpec

Roles = dict[Literal["same", "differs"], dict[str, ControlRole]]
"""The role of every control, for each direction of a claim."""

CONTROLS = {
    spec.name: spec
    for spec in (
        ControlSpec(
            name="self",
            replaces=("other",),
            by="the reference itself",
            random=False,
        ),
        ControlSpec(
            name="gauge-self",
            replaces=("other",),
            by="the reference, norms folded, moved by a random element of the group that "
            "plan.parametric.alignment names: the same function in other weights",
            random=False,
        ),
        ControlSpec(
            name="untrained",
            replaces=("other",),
            by="a fresh initialisation of the reference's architecture",
            random=False,
        ),
        ControlSpec(
            name="untrained-both",
            replaces=("reference", "other"),
            by="one fresh initialisation as spec and as model: what agrees there agrees by "
            "construction",
            random=False,
        ),
        ControlSpec(
            name="lineage",
            replaces=("other",),
            by="the model that the registration names for it: another checkpoint of the "
            "reference's own run",
            random=False,
            named=True,
        ),
        ControlSpec(
            name="other-task",
            replaces=("other",),
            by="the model that the registration names for it: a twin trained on other targets for "
            "the same tokens",
            random=False,
            named=True,
        ),
        ControlSpec(
            name="fine-tuned",
            replaces=("other",),
            by="the model that the registration names for it: a decoy that was fine-tuned from "
            "another seed to the reference's behaviour",
            random=False,
            named=True,
        ),
        ControlSpec(
            name="decoy-depth-pairs",
            replaces=("other",),
            by="the reference with the classes of its ordered output heads averaged in pairs: "
            "right on the rest, wrong between neighbours",
            random=False,
        ),
        ControlSpec(
            name="decoy-block-swap",
            replaces=("other",),
            by="the reference with its blocks in the opposite order: the same tensors elsewhere",
            random=False,
        ),
        ControlSpec(
            name="shuffled-components",
            replaces=("components",),
            by="the labels of the other model's components permuted at random",
            random=True,
        ),
    )
}
"""The controls of the bars, by name."""


def roles(
    known: Sequence[str],
    *,
    passing: Iterable[str] = (),
    failing: Iterable[str] = (),
    comparing: Iterable[str] = (),
) -> dict[str, ControlRole]:
    """The role of every known control; of those not named, that it does not apply.

    Args:
        known: controls of the suite. One that is named below and unknown here is left out.
        passing: must pass.
        failing: must fail.
        comparing: are shown beside.

    Raises:
        ValueError: a control that is given two roles.
    """
    given: dict[str, ControlRole] = {}
    chosen: tuple[tuple[ControlRole, Iterable[str]], ...] = (
        ("must-pass", passing),
        ("must-fail", failing),
        ("comparator", comparing),
    )
    for role, names in chosen:
        for name in names:
            if name in given:
                raise ValueError(f"expected one role of {name!r}, got two")
            given[name] = role
    return {name: given.get(name, "not-applicable") for name in known}
