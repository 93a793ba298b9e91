from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from prereg.canonical import sha256
from prereg.registration import Accepts, Registration


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
