"""The reference in a planted basis, far from where it was: every statistic must undo it.

The planted rotation is no identity and the offset is large, so that a transposed map, or one that
forgets a mean, is seen in each statistic that reads it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.case import Activations, MapChoice
from suites.rotation.controls import make_control
from suites.rotation.measure import measure
from suites.rotation.measure.frame import Frame

PAIRED, STITCH = "alignment.ev.paired@1", "alignment.stitch@1"
EXCESS, WHITENED = "alignment.ev.linear_excess@1", "alignment.ev.whitened@1"
SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
ARMS_OF = {
    "gauge-self": ("rotated", "scaled", "linear"),
    "offset": ("shift-only", "rotated", "scaled", "linear"),
    "rotation": ("pure-rotation", "rotated", "scaled", "linear"),
    "self": ("raw", "shift-only", "pure-rotation", "rotated", "scaled", "linear"),
}
"""Arms whose map undoes what was planted."""


@pytest.fixture(scope="module")
def planted(case, samples, plan):
    """The reference against itself: in another basis and moved, moved, in another basis, as is."""
    mine = replace(case, samples=samples(96, 128))
    gauge = make_control("gauge-self", mine, plan=plan, seed=4, draw=0, models={})
    return {
        "gauge-self": gauge,
        "offset": replace(mine, other=mine.reference, activations=gauge.activations),
        "rotation": replace(gauge, activations=Activations()),
        "self": replace(mine, other=mine.reference),
    }


@pytest.fixture(scope="module")
def judged(planted, context, values):
    """The largest distance of any value from the right one, by statistic and arm."""

    def distances(name):
        arms = ARMS_OF[name]
        coded = [f"sae.ev.{arm.replace('-', '_')}@1" for arm in arms]
        coded += ["sae.ev.paired@1", "sae.ev.gap_to_self@1"]
        wanted = [(s, arm) for s in (PAIRED, STITCH) for arm in arms]
        wanted += [(EXCESS, None), (WHITENED, None)]
        wanted += [(s, v) for s in (*coded, "sae.ev.self@1") for v in ("top", "re")]
        row = values(measure([planted[name]], context(*wanted))[0])

        def right(statistic, site, arm):
            if statistic in (EXCESS, "sae.ev.gap_to_self@1"):
                return 0.0
            return row["sae.ev.self@1", site, arm] if statistic in coded else 1.0

        found = {}
        for (statistic, site, arm), value in row.items():
            if statistic == "sae.ev.self@1":
                continue
            gap = abs(value - right(statistic, site, arm))
            found[statistic, arm] = max(gap, found.get((statistic, arm), 0.0))
        return found

    return distances


@pytest.mark.parametrize("name", ARMS_OF)
def test_a_planted_basis_and_offset_are_undone_in_every_statistic(judged, name):
    distances = judged(name)
    assert max(distances.values()) < 1e-6, distances


def mapping(change):
    """Changes every map: change(frame, site, arm, shipped map)."""
    given = Frame.map

    def apply(patch):
        def changed(self, site, arm):
            return change(self, site, arm, given(self, site, arm))

        patch.setattr(Frame, "map", changed)

    return apply


def zeros(array):
    return np.zeros_like(array)


@pytest.mark.parametrize(
    ("name", "change", "about"),
    [
        pytest.param("gauge-self", "means", ("rotated", "scaled", "linear"), id="no means"),
        pytest.param("gauge-self", "transpose", ("rotated", "scaled", "linear"), id="transpose"),
        pytest.param("offset", "means", ("shift-only",), id="shift only, no means"),
        pytest.param("rotation", "transpose", ("pure-rotation",), id="uncentred, transpose"),
    ],
)
def test_a_map_that_undoes_only_half_is_seen_in_every_statistic(
    judged, monkeypatch, name, change, about
):
    changes = {
        "means": lambda f: f._replace(
            mean_other=zeros(f.mean_other), mean_reference=zeros(f.mean_reference)
        ),
        "transpose": lambda f: f._replace(R=f.R.T),
    }
    mapping(lambda *a: changes[change](a[3]) if a[2] in about else a[3])(monkeypatch)
    distances = judged(name)
    changed = {(s, arm) for s in (PAIRED, STITCH) for arm in about}
    for variant in ("top", "re"):
        changed |= {(f"sae.ev.{arm.replace('-', '_')}@1", variant) for arm in about}
        if "rotated" in about:
            changed |= {(f"sae.ev.{one}@1", variant) for one in ("paired", "gap_to_self")}
    if "rotated" in about:
        changed |= {(WHITENED, None)}
    for key, distance in distances.items():
        if key in changed:
            assert distance > 1e-2, key
        elif key[0] != EXCESS:
            assert distance < 1e-6, key


@pytest.mark.parametrize("arm", ["rotated", "linear"])
@pytest.mark.parametrize("change", ["means", "transpose"])
def test_linear_excess_sees_a_fault_in_either_of_its_maps(judged, monkeypatch, arm, change):
    def changed(*a):
        if a[2] != arm:
            return a[3]
        if change == "transpose":
            return a[3]._replace(R=a[3].R.T)
        return a[3]._replace(mean_other=zeros(a[3].mean_other))

    mapping(changed)(monkeypatch)
    assert judged("gauge-self")[EXCESS, None] > 1e-2


def test_gauge_self_unaligned_is_what_remains_without_the_map(case, samples, plan, context, values):
    mine = replace(case, samples=samples(96, 128))
    turned = make_control("gauge-self-unaligned", mine, plan=plan, seed=4, draw=0, models={})
    assert turned.map == MapChoice("identity")
    row = values(measure([turned], context((PAIRED, "rotated"), (PAIRED, "raw")))[0])
    for site in SITES:
        assert row[PAIRED, site, "rotated"] == row[PAIRED, site, "raw"] < 0
