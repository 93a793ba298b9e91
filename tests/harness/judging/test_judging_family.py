"""Members: every site, pair and arm once, from the registration alone."""

from __future__ import annotations

import pytest

from harness.judging import members
from harness.judging.family import Member, family_size
from prereg.errors import InputError

SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")


def test_a_claim_has_a_member_for_each_site_and_pair_in_order(worlds):
    frozen = worlds.registration(worlds.claim(), sites=SITES, others=("b", "c"))
    assert [(m.site, m.pair) for m in members(frozen)["holds"]] == [
        (SITES[0], "b"),
        (SITES[0], "c"),
        (SITES[1], "b"),
        (SITES[1], "c"),
    ]
    assert members(frozen)["holds"][0].evidence_keys("self") == (
        (worlds.statistic, SITES[0], "b", None, "self"),
    )


def test_a_range_narrows_sites_and_pairs(worlds):
    over = {"sites": [SITES[1]], "pairs": ["c"]}
    frozen = worlds.registration(worlds.claim(over=over), sites=SITES, others=("b", "c"))
    assert members(frozen)["holds"] == (Member(worlds.statistic, SITES[1], "c", None),)


def test_without_sites_and_within_one_model_there_is_one_member(worlds):
    spec = worlds.spec("world.whole@1", per_site=False)
    claim = worlds.claim(statistic=spec.id)
    assert members(worlds.registration(claim, specs=[spec], others=()))["holds"] == (
        Member(spec.id, None, None, None),
    )


def test_seeds_are_one_member_a_site_that_rests_on_every_pair(worlds):
    frozen = worlds.registration(worlds.claim(pool="seeds"), sites=SITES, others=("b", "c"))
    found = members(frozen)["holds"]
    assert [m.site for m in found] == list(SITES)
    assert [key[2] for key in found[0].evidence_keys()] == ["b", "c"]


def test_bars_come_first_and_the_family_counts_primary_members_only(worlds):
    bar = {k: v for k, v in worlds.claim().items() if k != "id"}
    frozen = worlds.registration(
        worlds.claim("one"),
        worlds.claim("beside", role="secondary"),
        bars={"C": bar},
        sites=SITES,
        others=("b", "c", "d"),
    )
    family = members(frozen)
    assert list(family) == ["C", "one", "beside"]
    assert family_size(frozen, family) == 12


def _arms(worlds):
    return worlds.spec("world.arms@1", arms=("raw", "rotated"))


def _p_valued(worlds):
    return worlds.spec("world.rank@1", estimator="draws")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"statistic": "world.other@1"}, "judging.statistic"),
        ({"over": {"sites": ["blocks.7.hook_resid_post"]}}, "judging.site"),
        ({"over": {"sites": [SITES[0], SITES[0]]}}, "judging.site"),
        ({"over": {"pairs": ["z"]}}, "judging.pair"),
        ({"arm": "raw"}, "judging.arm"),
        ({"statistic": "world.arms@1"}, "judging.arm"),
        ({"statistic": "world.arms@1", "arm": "linear"}, "judging.arm"),
        ({"statistic": "world.rank@1", "kind": "same", "below": 0.05}, "judging.p-valued"),
        ({"statistic": "world.rank@1", "kind": "differs", "below": 0.2}, "judging.p-valued"),
        (
            {"statistic": "world.rank@1", "kind": "differs", "equivalent_to": 0.0, "margin": 4.0},
            "judging.p-valued",
        ),
        (
            {"statistic": "world.rank@1", "kind": "differs", "below": 0.05, "pool": "seeds"},
            "judging.pool",
        ),
    ],
)
def test_a_claim_without_meaning_is_refused(worlds, changes, code):
    frozen = worlds.registration(
        worlds.claim(**changes), specs=[_arms(worlds), _p_valued(worlds)], sites=SITES
    )
    with pytest.raises(InputError) as caught:
        members(frozen)
    assert caught.value.code == code


def test_a_registered_arm_and_a_p_valued_claim_that_differs_are_accepted(worlds):
    frozen = worlds.registration(
        worlds.claim("a", statistic="world.arms@1", arm="raw"),
        worlds.claim("p", statistic="world.rank@1", kind="differs", below=0.05),
        specs=[_arms(worlds), _p_valued(worlds)],
    )
    assert members(frozen)["a"][0].arm == "raw"
    assert len(members(frozen)["p"]) == 1


def test_sites_for_a_statistic_without_sites_are_refused(worlds):
    spec = worlds.spec("world.whole@1", per_site=False)
    claim = worlds.claim(statistic=spec.id, over={"sites": [SITES[0]]})
    with pytest.raises(InputError, match="has none"):
        members(worlds.registration(claim, specs=[spec], sites=SITES))


def test_no_role_no_claim(worlds):
    spec = worlds.spec("world.bare@1", roles={"same": {"self": "must-pass"}})
    for kind in ("same", "differs"):
        frozen = worlds.registration(worlds.claim(statistic=spec.id, kind=kind), specs=[spec])
        with pytest.raises(InputError, match="no role"):
            members(frozen)
