"""Reading the YAML and JSON data files that ship with the project."""

from __future__ import annotations

import json
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any


def load_yaml(source: Path | Traversable) -> Any:
    """The plain data of a shipped YAML 1.2 file."""
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).load(source.read_text(encoding="utf-8"))


def as_json(value: Any) -> str:
    """`value` as JSON text, for models that validate strictly from JSON."""
    return json.dumps(value, allow_nan=False)
