"""Numbers, words and plain data as they are read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging.verdict import Estimate
from reports.wording import (
    MOST_DECIMALS,
    NONE,
    TIMES,
    clean,
    counted,
    decimals,
    moment,
    number,
    outline,
    p_text,
    percent,
    printed,
    region,
    sample,
)

SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
FINITE = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)


@given(
    value=FINITE,
    half=st.floats(min_value=0, max_value=1e3),
    gap=st.floats(min_value=-2e3, max_value=2e3),
)
@settings(deadline=None, max_examples=200)
def test_what_is_printed_never_lies_on_another_side_of_a_threshold_than_what_was_judged(
    value: float, half: float, gap: float
) -> None:
    bound = value + gap
    ends = [value - half, value, value + half]
    places = decimals(ends, [bound])
    if places > MOST_DECIMALS:
        return  # written in the scientific form, with every figure that a reader could ask for
    for end in ends:
        shown = float(f"{end:.{places}f}")
        assert (shown < bound) == (end < bound)
        assert (shown > bound) == (end > bound)


@given(p=st.floats(1e-9, 1.0), gap=st.floats(-1e-3, 1e-3))
@settings(deadline=None, max_examples=200)
def test_a_printed_p_never_lies_on_another_side_of_a_threshold_than_what_was_judged(
    p: float, gap: float
) -> None:
    bound = p + gap
    mantissa, _, power = p_text(p, [bound]).partition(TIMES)
    shown = float(f"{mantissa}e{power[2:].translate(SUPERSCRIPTS)}") if power else float(mantissa)
    assert (shown < bound, shown > bound) == (p < bound, p > bound)
    assert shown == pytest.approx(p, rel=5e-3)


def test_a_p_has_three_figures_where_they_suffice() -> None:
    assert p_text(0.0123456) == "0.0123"
    assert p_text(0.050012, [0.05]) == "0.05001"


def test_bounds_and_what_is_undefined_are_no_sample() -> None:
    assert sample(Estimate(low=0.1, high=0.2, level=0.95)) == "not sampled"
    assert sample(Estimate(undefined="no head")) == NONE
    assert sample(Estimate(blocks=12, undefined="too few blocks")) == "n = 12 blocks"
    assert printed(Estimate(low=0.0, high=1e-14)).interval.startswith("[0, 1.0")


def test_an_interval_that_just_misses_the_threshold_is_printed_with_more_figures() -> None:
    estimate = Estimate(value=0.52, low=0.4996, high=0.5404, level=0.95)
    assert printed(estimate).interval == "[0.500, 0.540]"
    assert printed(estimate, [0.5]).interval == "[0.4996, 0.5404]"


@pytest.mark.parametrize(
    ("estimate", "value", "interval"),
    [
        (Estimate(value=1.31, low=1.31, high=1.31), "1.31", "exact"),
        (Estimate(value=0.0, low=0.0, high=0.0), "0", "exact"),
        (Estimate(value=0.75, low=0.75, high=0.75, blocks=64), "0.75", "[0.75, 0.75]"),
        (Estimate(low=-1.0, high=2.0), "bounds", "[\N{MINUS SIGN}1.0, 2.0]"),
        (Estimate(value=0.2, p_value=0.03), "0.2", "no interval"),
        (Estimate(undefined="empty"), "\N{EM DASH}", "\N{EM DASH}"),
    ],
)
def test_values_without_a_proper_interval_say_so(
    estimate: Estimate, value: str, interval: str
) -> None:
    assert printed(estimate) == (value, interval)


def test_small_numbers_are_scientific_and_minus_is_a_minus() -> None:
    assert number(3e-14) == "3\N{MULTIPLICATION SIGN}10⁻¹⁴"
    assert number(-0.25) == "\N{MINUS SIGN}0.25"
    assert number(-0.0, decimals=2) == "0.00"


@pytest.mark.parametrize(
    ("share", "text"), [(0.95, "95"), (0.99642857, "99.64"), (0.9999, "99.990"), (0.5, "50")]
)
def test_a_level_is_never_rounded_up_to_certainty(share: float, text: str) -> None:
    shown = percent(share).removesuffix("\u202f%")
    assert shown.rstrip("0").rstrip(".") == text.rstrip("0").rstrip(".") or shown == text
    assert float(shown) < 100


def test_counts_regions_and_times() -> None:
    assert counted(1, "block") == "1 block"
    assert counted(12000, "block") == "12\u202f000 blocks"
    assert region(None, 0.02) == "below 0.02"
    assert region(-4.0, 4.0) == "between \N{MINUS SIGN}4 and 4"
    assert moment("2026-12-01T09:14:07+00:00") == "2026-12-01 09:14 UTC"
    assert moment("not a time") == "not a time"


def test_few_effective_blocks_are_said() -> None:
    assert sample(Estimate(blocks=64, effective_blocks=63.0)) == "n = 64 blocks"
    assert sample(Estimate(blocks=64, effective_blocks=21.0)) == "n = 64 blocks (21 effective)"
    assert sample(Estimate(blocks=5), of="seed") == "n = 5 seeds"


def test_marks_that_turn_the_reading_direction_are_made_visible() -> None:
    assert (
        clean("PASS \u202eLIAF\x00")
        == "PASS \N{REPLACEMENT CHARACTER}LIAF\N{REPLACEMENT CHARACTER}"
    )
    assert clean("a\n\té") == "a\n\té"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(data=st.dictionaries(st.text(max_size=5), PLAIN, max_size=4))
@settings(deadline=None, max_examples=100)
def test_every_scalar_of_plain_data_is_in_its_outline(data: dict[str, object]) -> None:
    text = outline(data)
    for scalar in _scalars(data):
        assert json.dumps(scalar, ensure_ascii=False).strip('"') in text


def _scalars(data: object) -> list[object]:
    if isinstance(data, dict):
        return [leaf for item in data.values() for leaf in _scalars(item)]
    if isinstance(data, list):
        return [leaf for item in data for leaf in _scalars(item)]
    return [data]


def test_text_that_reads_like_another_type_is_quoted_in_the_outline() -> None:
    assert outline({"a": "true", "b": True, "c": "1e-3", "d": 1e-3}).split("\n") == [
        'a: "true"',
        "b: true",
        'c: "1e-3"',
        "d: 0.001",
    ]
