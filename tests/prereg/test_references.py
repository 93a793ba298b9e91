from __future__ import annotations

import pytest

from prereg.errors import InputError
from prereg.references import resolve

KNOWN = ["abcdef" + "0" * 58, "abcdef1" + "0" * 57, "123456789abc" + "0" * 52]


def test_forms() -> None:
    assert resolve(KNOWN[0], known=KNOWN) == (KNOWN[0], None)
    assert resolve("123456", known=KNOWN) == (KNOWN[2], None)
    assert resolve("123456789ABC/3", known=KNOWN) == (KNOWN[2], 3)
    assert resolve(" abcdef1 ", known=KNOWN) == (KNOWN[1], None)


@pytest.mark.parametrize(
    "reference",
    ["", "12345", "claim.yaml", "../x", "123456/", "123456/a", "123456/-1", "1" * 65, "000000"],
)
def test_what_is_no_reference(reference: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(reference, known=KNOWN)
    assert caught.value.code == "reference.unknown"
    assert "prebench log" in caught.value.fix


def test_near_and_ambiguous() -> None:
    with pytest.raises(InputError) as caught:
        resolve("123456789abd", known=KNOWN)
    assert "did you mean `123456789abc`?" in caught.value.fix
    with pytest.raises(InputError, match="beginning of 2 ids") as caught:
        resolve("abcdef", known=KNOWN)
    assert caught.value.code == "reference.ambiguous"
    with pytest.raises(InputError) as caught:
        resolve("abcdef", known=[])
    assert "prebench register" in caught.value.fix
