from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from prereg.canonical import sha256
from prereg.registration import Accepts, Registration
from prereg.resolved import ControlSpec, StatisticSpec


def test_the_id_is_the_digest_of_the_frozen_bytes(freeze: Callable[..., Registration]) -> None:
    registration = freeze()
    assert registration.id == sha256(registration.canonical())
    back = Registration.model_validate_json(registration.canonical())
    assert back == registration
    assert back.id == registration.id
    assert freeze("Another").id != registration.id


def test_frozen_text_does_not_depend_on_its_normal_form(
    freeze: Callable[..., Registration],
) -> None:
    assert freeze("Caf\u00e9").id == freeze("Cafe\u0301").id


@pytest.mark.parametrize(
    ("given", "lower", "upper"),
    [
        ({"below": 0.0}, float("-inf"), 0.0),
        ({"above": 0.5}, 0.5, float("inf")),
        ({"between": (0.0, 1.0)}, 0.0, 1.0),
        ({"equivalent_to": 0.0, "margin": 4.0}, -4.0, 4.0),
    ],
)
def test_regions(given: dict[str, object], lower: float, upper: float) -> None:
    region = Accepts.model_validate(given).region
    assert (region.lower, region.upper) == (lower, upper)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"below": 0.0, "above": 1.0},
        {"equivalent_to": 0.0},
        {"below": 0.0, "margin": 1.0},
        {"between": (1.0, 0.0)},
        {"equivalent_to": 0.0, "margin": 0.0},
    ],
)
def test_regions_that_are_none(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Accepts.model_validate(given)


SPEC = {
    "id": "alignment.ev.paired@1",
    "title": "Paired explained variance",
    "formula": "EV",
    "unit": "1",
    "source": "a definition",
    "estimator": "one_minus_ratio",
    "per_site": True,
}


def test_what_is_only_shown_needs_neither_arms_nor_roles() -> None:
    claimed = StatisticSpec.model_validate({**SPEC, "arms": ("rotated",), "roles": {"same": {}}})
    assert claimed.shown_arms == ()
    shown = StatisticSpec.model_validate({**SPEC, "shown_arms": ("raw", "linear"), "roles": {}})
    assert (shown.arms, shown.shown_arms) == ((), ("raw", "linear"))
    assert StatisticSpec.model_validate_json(shown.model_dump_json()) == shown
    with pytest.raises(ValidationError, match="roles"):
        StatisticSpec.model_validate(SPEC)


def test_a_control_takes_no_model_unless_it_says_so() -> None:
    plain = {"name": "lineage", "replaces": ("other",), "by": "a checkpoint", "random": False}
    assert not ControlSpec.model_validate(plain).named
    assert ControlSpec.model_validate({**plain, "named": True}).named
    with pytest.raises(ValidationError, match="named"):
        ControlSpec.model_validate({**plain, "named": "yes"})


def test_models_of_controls_are_part_of_the_frozen_bytes(
    freeze: Callable[..., Registration],
) -> None:
    registration = freeze()
    resolved = registration.resolved
    model = resolved.subjects.reference
    subjects = resolved.subjects.model_copy(update={"controls": {"lineage": model}})
    changed = resolved.model_copy(update={"subjects": subjects})
    named = registration.model_copy(update={"resolved": changed})
    assert resolved.subjects.controls == {}
    assert named.id != registration.id
    back = Registration.model_validate_json(named.canonical())
    assert back.resolved.subjects.controls == {"lineage": model}
    assert back.id == named.id
