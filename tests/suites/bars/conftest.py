"""The bars suite's files as plain data, made small, and everything up to a judged attempt."""

from __future__ import annotations

import json

import pytest
from ruamel.yaml import YAML

from harness.resolve import prepare
from harness.run import run
from harness.suite import suite
from harness.verdicts import judge_attempt
from prereg.hypothesis import parse_hypothesis
from prereg.workspace import Workspace


def shipped(name, changes):
    """The shipped file with the values at dotted paths replaced, added, or (None) left out."""
    data = YAML(typ="safe", pure=True).load(suite("bars").hypotheses[name].read_text("utf-8"))
    for path, value in changes.items():
        *way, last = path.split(".")
        place = data
        for step in way:
            place = place.setdefault(step, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return data


@pytest.fixture
def prepared():
    """A shipped file with changes, looked up."""

    def make(name="bars", **changes):
        source = json.dumps(shipped(name, changes)).encode()
        return prepare(parse_hypothesis(source, name="claim.json", is_json=True))

    return make


@pytest.fixture
def judged(prepared, tmp_path):
    """A shipped file with changes, run and judged: the verdict's claims by name, and evidence."""

    def make(name="bars", **changes):
        found = prepared(name, **changes).registration
        home = Workspace.at(tmp_path / "home")
        home.register(found, json.dumps(shipped(name, changes)).encode(), suffix="json")
        done = run(home, found.id)
        return {
            claim.name: claim for claim in judge_attempt(home, done.registration).verdict.claims
        }

    return make
