from __future__ import annotations

import json
import math
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prereg.canonical import MAX_DEPTH, canonical, digest, normalise, reread
from prereg.errors import InputError

# Appendix B of RFC 8785: the bits of a float and how they are written.
VECTORS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@pytest.mark.parametrize(("bits", "written"), VECTORS)
def test_numbers_of_the_rfc(bits: str, written: str) -> None:
    value = struct.unpack(">d", bytes.fromhex(bits))[0]
    assert canonical(value).decode() == written


def test_example_of_the_rfc() -> None:
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f",
        "literals": [None, True, False],
    }
    assert canonical(value).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_keys_are_sorted_by_utf16_units() -> None:
    # By code points the last two would change places.
    keys = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\uff21"]
    assert list(json.loads(canonical(dict.fromkeys(reversed(keys), 0)))) == keys
    assert sorted(keys) != keys


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(-0.0)
@example(5e-324)
@example(1e-310)
@example(1e16)
@example(1.7976931348623157e308)
@settings(deadline=None)
def test_every_float_survives(value: float) -> None:
    back = json.loads(canonical([value]))[0]
    assert float(back) == value
    assert canonical(reread([back])) == canonical([value])


def test_minus_zero_is_zero() -> None:
    assert canonical(-0.0) == canonical(0.0) == canonical(0) == b"0"
    assert math.copysign(1, normalise(-0.0)) == 1


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner),
    max_leaves=12,
)


@given(plain)
@settings(deadline=None)
def test_canonical_form_is_a_fixed_point(value: object) -> None:
    once = canonical(value)
    assert canonical(reread(json.loads(once))) == once


def test_composed_and_decomposed_text_is_one() -> None:
    assert digest({"caf\u00e9": "\u00e9"}) == digest({"cafe\u0301": "e\u0301"})


def test_keys_that_collide_after_normalisation() -> None:
    with pytest.raises(InputError, match="twice") as caught:
        canonical({"\u00e9": 1, "e\u0301": 2})
    assert caught.value.code == "canonical.not-plain"


def deep(levels: int) -> object:
    value: object = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        2**53,
        -(2**53),
        {1: 2},
        {"a": {1, 2}},
        b"bytes",
        object(),
        "\ud800",
        {"\udfff": 1},
        deep(MAX_DEPTH + 1),
    ],
    ids=lambda value: repr(value)[:20].encode("ascii", "replace").decode(),
)
def test_what_json_does_not_have(value: object) -> None:
    with pytest.raises(InputError) as caught:
        canonical(value)
    assert caught.value.expected
    assert caught.value.fix


def test_deepest_allowed_nesting() -> None:
    assert canonical(deep(MAX_DEPTH)).count(b"[") == MAX_DEPTH
    assert canonical(2**53 - 1) == b"9007199254740991"
