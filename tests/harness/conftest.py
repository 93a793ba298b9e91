"""Hypothesis files as plain data: the shipped one, and one that is small enough to run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from ruamel.yaml import YAML

Plain = dict[str, Any]

SITE = "blocks.1.hook_resid_post"

CLAIMS: tuple[Plain, ...] = (
    {
        "id": "same-state",
        "statistic": "alignment.ev.paired@1",
        "arm": "rotated",
        "kind": "same",
        "above": 0.5,
    },
    {
        "id": "rotation-needed",
        "statistic": "rotation.identity_share@1",
        "kind": "differs",
        "below": 0.5,
    },
)

DICTIONARY: Plain = {
    "kind": "topk",
    "k": 4,
    "width": 32,
    "steps": 4,
    "feed": {"batch_tokens": 64, "buffer_tokens": 256},
}

FEATURES: Plain = {
    "id": "features",
    "statistic": "sae.ev.rotated@1",
    "arm": "few",
    "kind": "same",
    "above": 0.5,
}


def drop(*names: str) -> Plain:
    """`controls` without these."""
    return {"drop": [{"control": name, "reason": "one less to wait for"} for name in names]}


TINY: Plain = {
    "corpus.splits": {"dictionary": 64, "fit": 128, "evaluate": 384},
    "plan.sites": [SITE],
    "plan.dictionaries": {},
    "plan.explore": "claimed",
    "claims": list(CLAIMS),
    "controls": drop("covariance-only", "haar", "noise"),
}
"""What is left of the shipped file for a run of a few seconds."""

WITH_FEATURES: Plain = {
    "plan.dictionaries": {"few": DICTIONARY},
    "claims": [FEATURES],
    "controls": drop("self-fresh", "gauge-self", "covariance-only", "haar", "noise", "shuffled"),
}
"""Changes that put a claim about a dictionary in the place of the others."""


def put(plain: Plain, changes: Mapping[str, Any]) -> Plain:
    """A copy with the values at dotted paths replaced or added."""
    copied: Plain = json.loads(json.dumps(plain))
    for path, value in changes.items():
        *way, last = path.split(".")
        place = copied
        for step in way:
            place = place.setdefault(step, {})
        place[last] = json.loads(json.dumps(value))
    return copied


@pytest.fixture(scope="session")
def shipped() -> Plain:
    """The rotation suite's own hypothesis file; to be copied, not changed."""
    from harness.suite import suite

    source = suite("rotation").hypotheses["rotation"].read_text(encoding="utf-8")
    return json.loads(json.dumps(YAML(typ="safe").load(source)))


@pytest.fixture(scope="session")
def hypothesis(shipped: Plain) -> Callable[..., Plain]:
    """The shipped file with changes, by dotted path."""
    return lambda changes=(): put(shipped, dict(changes))


@pytest.fixture(scope="session")
def tiny(shipped: Plain) -> Callable[..., Plain]:
    """The shipped file cut down, with further changes, by dotted path."""
    small = put(shipped, TINY)
    return lambda *changes: put(small, {k: v for more in changes for k, v in more.items()})


@pytest.fixture(scope="session")
def prepared_from() -> Callable[[Plain], Any]:
    """What a hypothesis in plain data resolves to."""
    from harness.resolve import prepare
    from prereg.hypothesis import parse_hypothesis

    return lambda plain: prepare(
        parse_hypothesis(json.dumps(plain).encode(), name="claim.json", is_json=True)
    )


@pytest.fixture(scope="session")
def register(prepared_from: Callable[[Plain], Any]) -> Callable[[Any, Plain], str]:
    """Registers a hypothesis in plain data in a workspace, and gives its id."""

    def registered(home: Any, plain: Plain) -> str:
        found = prepared_from(plain).registration
        home.register(found, json.dumps(plain).encode(), suffix="json")
        identifier: str = found.id
        return identifier

    return registered


@pytest.fixture(scope="session")
def dropping() -> Callable[..., Plain]:
    """What stands under `controls` where these are dropped."""
    return drop


@pytest.fixture(scope="session")
def with_features() -> Plain:
    """Changes that put a claim about a dictionary in the place of the others."""
    return WITH_FEATURES


class Unmeasured:
    """What a run made and asked for, where every scalar is 0.125 and nothing is computed.

    Attributes:
        passes: names of the cases that were measured together, a pass each; "main" first.
        wanted: statistics and arms that were asked for, by case; the same for every draw.
        made: name, case that it was made of, seed, draw and models of every control.
    """

    def __init__(self) -> None:
        self.passes: list[list[str]] = []
        self.wanted: dict[str, set[tuple[str, str | None]]] = {}
        self.made: list[tuple[str, Any, int, int, Mapping[str, Any]]] = []
        self._names: dict[int, tuple[str, Any]] = {}

    @property
    def measured(self) -> list[str]:
        """Names of the cases that were measured, in order."""
        return [name for names in self.passes for name in names]

    def make_control(
        self, name: str, case: Any, *, plan: Any, seed: int, draw: int, models: Mapping[str, Any]
    ) -> Any:
        """The case itself, as another object."""
        from dataclasses import replace

        self.made.append((name, case, seed, draw, models))
        found = replace(case)
        self._names[id(found)] = (name, found)  # kept, so that the id stays its own
        return found

    def measure(self, cases: Any, context: Any) -> Any:
        """A row a case."""
        from harness.measured import Measured

        names = [self._names.get(id(case), ("main", case))[0] for case in cases]
        self.passes.append(list(dict.fromkeys(names)))
        asked = [context.wanted_of(index) for index in range(len(cases))]
        for name, wanted in zip(names, asked, strict=True):
            assert self.wanted.setdefault(name, set(wanted)) == wanted
        return [
            [Measured(s, None, arm=arm, value=0.125) for s, arm in sorted(wanted, key=str)]
            for wanted in asked
        ]


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> Unmeasured:
    """Puts itself in the place of the suite in every run."""
    found = Unmeasured()
    monkeypatch.setattr(
        "harness.run.load_callable", lambda written: getattr(found, written.partition(":")[2])
    )
    return found
