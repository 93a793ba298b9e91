"""Reading a hypothesis file: strict, and every problem at once with the line that it stands on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from prereg.complaints import problems
from prereg.errors import InputError
from prereg.files import fault
from prereg.near import nearest
from prereg.registration import Hypothesis
from prereg.syntax import MAX_BYTES, Problem, parse

_LISTED = 40
"""Problems that a message repeats before it only counts the rest; `problems` holds all of them."""


class HypothesisError(InputError):
    """A hypothesis file with problems, all of them listed.

    Args:
        name: the file.
        problems: what is wrong, in the order of the lines.
    """

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        self.name = name
        self.problems = tuple(problems)
        first, *more = self.problems
        found = f"{name}:{first.line}: {first.path}: {first.found}"
        expected, fix = first.expected, first.fix
        if more:
            listed = "".join(f"\n  {_sentence(name, item)}" for item in self.problems[:_LISTED])
            if len(self.problems) > _LISTED:
                listed += f"\n  and {len(self.problems) - _LISTED} more"
            found = f"{name} has {len(self.problems)} problems{listed}"
            expected, fix = "a hypothesis file without them", "correct the lines named above"
        super().__init__(found, expected=expected, fix=fix, code="registration.invalid")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.name, self.problems))

    def as_dict(self) -> dict[str, Any]:
        """The error as plain data, with one record a problem."""
        return super().as_dict() | {"problems": [item._asdict() for item in self.problems]}


def read_hypothesis(path: Path) -> tuple[Hypothesis, bytes]:
    """The hypothesis in a file, and the file's bytes as read.

    A name that ends in `.json` is read as JSON, every other as YAML 1.2.

    Raises:
        InputError: there is no such file, or it is not a valid hypothesis file.
        EnvironmentFault: the system does not let it be read.
    """
    text = _read(Path(path))
    is_json = Path(path).suffix.lower() == ".json"
    return parse_hypothesis(text, name=str(path), is_json=is_json), text


def parse_hypothesis(text: bytes, *, name: str, is_json: bool) -> Hypothesis:
    """The hypothesis in `text`, the bytes of a YAML or JSON file called `name`.

    Strings are in NFC, and numbers are what they denote: `1e-3`, `0.001` and `1.0e-3` are one.

    Raises:
        HypothesisError: fields are missing, unknown or wrong; it lists all of them.
        InputError: the text cannot be read at all.
    """
    parsed = parse(text, name=name, is_json=is_json)
    failure: ValidationError | None = None
    hypothesis: Hypothesis | None = None
    try:
        hypothesis = Hypothesis.model_validate_json(json.dumps(parsed.data), strict=True)
    except ValidationError as error:
        failure = error
    found = problems(parsed, failure)
    if found or hypothesis is None:
        raise HypothesisError(name, found) from failure
    return hypothesis


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(
            f"there is no file {path}",
            expected="a hypothesis file",
            fix=_elsewhere(path),
            code="registration.no-file",
        ) from error
    except IsADirectoryError as error:
        raise InputError(
            f"{path} is a folder",
            expected="a hypothesis file",
            fix="name the file inside it",
            code="registration.no-file",
        ) from error
    except OSError as error:
        raise fault(error, path) from error
    except ValueError as error:
        raise InputError(
            f"{str(path)!r} cannot be the name of a file",
            expected="a hypothesis file",
            fix="pass the path of a file",
            code="registration.no-file",
        ) from error


def _elsewhere(path: Path) -> str:
    start = "`prebench new SUITE > claim.yaml` writes one"
    if not path.parent.is_dir():
        return start
    names = [item.name for item in path.parent.iterdir() if item.suffix in (".yaml", ".json")]
    return f"{nearest(path.name, names)}; {start}" if names else start


def _sentence(name: str, problem: Problem) -> str:
    return (
        f"{name}:{problem.line}: {problem.path}: {problem.found}; "
        f"expected {problem.expected}; {problem.fix}"
    )
