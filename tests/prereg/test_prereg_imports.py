from __future__ import annotations

import subprocess
import sys

import pytest

import prereg

HEAVY = {"torch", "lightning", "pytorch_lightning", "transformers", "numpy", "scipy", "matplotlib"}
SEEN = "import sys; {}; print(*sorted(m.partition('.')[0] for m in sys.modules))"


def imported(statement: str) -> set[str]:
    command = [sys.executable, "-c", SEEN.format(statement)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(result.stdout.split())


@pytest.mark.parametrize("name", prereg.__all__)
def test_nothing_heavy_is_imported(name: str) -> None:
    seen = imported(f"from prereg import {name}")
    assert not seen & HEAVY
    assert "ruamel" not in seen


def test_the_package_itself_is_cheap() -> None:
    assert not imported("import prereg") & (HEAVY | {"pydantic", "filelock", "ruamel"})


def test_public_names() -> None:
    for name in prereg.__all__:
        assert getattr(prereg, name).__name__ == name
        assert name in dir(prereg)
    with pytest.raises(AttributeError, match="no attribute 'forgotten'"):
        _ = prereg.forgotten
