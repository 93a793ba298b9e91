from __future__ import annotations

from prereg.near import closest, nearest


def test_a_misspelt_name() -> None:
    known = ["sae.ev.raw@1", "sae.ev.gap_to_self@1"]
    assert nearest("sae.ev.row@1", known) == "did you mean `sae.ev.raw@1`?"
    assert closest("SAE.EV.RAW@1", known) == "sae.ev.raw@1"


def test_nothing_near_lists_what_is_known() -> None:
    assert nearest("x", ["beta", "alpha"]) == "known: `alpha`, `beta`"
    assert nearest("zzz", [f"site{i:02}" for i in range(15)]).endswith("and 3 more")
    assert nearest("x", []) == "none are known here"
