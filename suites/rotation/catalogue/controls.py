"""The rotation suite's controls: what each puts in the place of what."""

from __future__ import annotations

from collections.abc import Iterable

from harness.bars import control_specs as bars
from prereg.resolved import ControlRole, ControlSpec

BARS_ALONE = (
    *("untrained-both", "fine-tuned", "decoy-depth-pairs", "decoy-block-swap"),
    "shuffled-components",
)
"""Controls that only bars have a use for."""

_SEQUENCES = "on the registered number of sequences"

CONTROLS = (
    bars.CONTROLS["self"],
    ControlSpec(
        name="self-fresh",
        replaces=("samples", "other"),
        by="the reference itself, on evaluation samples that nothing else reads",
        random=False,
    ),
    ControlSpec(
        name="gauge-self",
        replaces=("other", "activations"),
        by="the reference, norms folded, in a Haar-random basis of the residual stream, with a "
        "random offset added to its captured states",
        random=False,
    ),
    ControlSpec(
        name="gauge-self-unaligned",
        replaces=("other", "map"),
        by="the reference in the basis of gauge-self, without an offset, and the map is the "
        "identity",
        random=False,
    ),
    bars.CONTROLS["untrained"],
    bars.CONTROLS["lineage"],
    bars.CONTROLS["other-task"],
    ControlSpec(
        name="covariance-only",
        replaces=("map", "samples"),
        by="the two covariances' eigenbases matched in order of variance, with random signs, "
        + _SEQUENCES,
        random=True,
    ),
    ControlSpec(
        name="haar",
        replaces=("map", "samples"),
        by=f"a Haar-random rotation, the means aligned, {_SEQUENCES}",
        random=True,
    ),
    ControlSpec(
        name="noise",
        replaces=("activations", "samples"),
        by="Gaussian states of the other model's mean and covariance at each site, " + _SEQUENCES,
        random=True,
    ),
    ControlSpec(
        name="shuffled",
        replaces=("pairing", "samples"),
        by="the other model's tokens permuted inside every block, in fit and evaluation, "
        + _SEQUENCES,
        random=True,
    ),
    ControlSpec(
        name="tokpos-shuffled",
        replaces=("pairing", "samples"),
        by="the other model's tokens permuted among equal tokens at equal positions, in fit and "
        f"evaluation, {_SEQUENCES}",
        random=True,
    ),
    *(bars.CONTROLS[name] for name in BARS_ALONE),
    ControlSpec(
        name="pca-k",
        replaces=("dictionary",),
        by="the reference's first principal components at the fit samples, as many as the "
        "dictionary has active features a token",
        random=False,
    ),
)

IDENTICAL = ("self", "self-fresh", "gauge-self")
"""The same function, up to a change of basis."""
TWINS = ("lineage", "other-task")
"""Models that differ from the reference in a known way."""
DESTROYED = ("covariance-only", "haar", "noise", "shuffled")
"""What a paired statistic reads has been destroyed, in map, states or pairing."""


def roles(
    *,
    passing: Iterable[str] = (),
    failing: Iterable[str] = (),
    comparing: Iterable[str] = (),
) -> dict[str, ControlRole]:
    """The role of every control; of those not named, that it does not apply.

    Raises:
        ValueError: a control that does not exist, or that is given two roles.
    """
    known = [spec.name for spec in CONTROLS]
    named = [tuple(names) for names in (passing, failing, comparing)]
    for name in (name for names in named for name in names):
        if name not in known:
            raise ValueError(f"expected a control of the suite, got {name!r}")
    return bars.roles(known, passing=named[0], failing=named[1], comparing=named[2])
