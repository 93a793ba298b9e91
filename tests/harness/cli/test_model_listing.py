"""What `prebench models` says about the shipped models."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from harness.cli import app
from harness.subjects.reference import CARD, zoo


def cards():
    """The cards of the shipped models; checkpoints have none of their own."""
    folders = {name: folder for name, folder in zoo().items() if (folder / CARD).exists()}
    return {name: json.loads((folder / CARD).read_bytes()) for name, folder in folders.items()}


def test_the_list_says_which_task_each_model_learned():
    header, *lines = CliRunner().invoke(app, ["models"]).stdout.splitlines()
    assert "task" in header.split()
    assert [line.split()[0] for line in lines] == [f"zoo:{name}" for name in cards()]
    for line, card in zip(lines, cards().values(), strict=True):
        reference, weights, sequences, task, *accuracy = line.split()
        assert weights == card["weights"][:12]
        assert sequences == f"{card['sequences']:,}"
        assert task == card["task"]
        assert accuracy[:2] == ["copy", f"{card['accuracy']['copy']:.2%},"], reference


def test_the_json_list_holds_the_cards():
    done = CliRunner().invoke(app, ["models", "--json"])
    assert json.loads(done.stdout)["models"] == [
        {"reference": f"zoo:{name}", **card} for name, card in cards().items()
    ]
