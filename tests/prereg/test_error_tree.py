from __future__ import annotations

import pickle

import pytest

from prereg.errors import (
    EnvironmentFault,
    Exit,
    IncompleteError,
    InputError,
    IntegrityError,
    PrebenchError,
)
from prereg.hypothesis import HypothesisError
from prereg.syntax import Problem

KINDS = [
    (InputError, ValueError, Exit.INPUT),
    (IntegrityError, ValueError, Exit.INTEGRITY),
    (EnvironmentFault, OSError, Exit.ENVIRONMENT),
    (IncompleteError, RuntimeError, Exit.INCOMPLETE),
]


@pytest.mark.parametrize(("kind", "builtin", "code"), KINDS)
def test_an_error_is_its_builtin_and_survives_a_process_border(
    kind: type[PrebenchError], builtin: type[Exception], code: Exit
) -> None:
    error = kind("found", expected="expected", fix="fix", code="a.code")
    assert isinstance(error, builtin)
    assert error.exit_code == code
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert back.as_dict() == error.as_dict()
    assert str(back) == "found\n  expected: expected\n  what to do: fix"


def test_a_list_of_problems_survives_too() -> None:
    error = HypothesisError("a.yaml", [Problem(3, "title", "nothing", "text", "write it")])
    back = pickle.loads(pickle.dumps(error))
    assert back.problems == error.problems
    assert back.as_dict()["problems"][0]["line"] == 3
