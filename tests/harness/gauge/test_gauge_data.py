"""The gauge section of an architecture file is checked when it is loaded."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from harness.subjects.architecture import Family, family

W = "blocks.{layer}.attn.W_"
HEADS = {"space": "head", "tensors": [W + x for x in "QKVO"]}
QK = {"first": W + "Q", "second": W + "K", "space": "head_dim", "group": "general-linear"}
MLP = {
    "first": "blocks.{layer}.mlp.W_in",
    "second": "blocks.{layer}.mlp.W_out",
    "space": "mlp",
    "group": "permutation-positive-scale",
}


def with_gauge(**gauge):
    plain = family("dyck").model_dump(mode="json")
    plain["gauge"] = {"permuted": [HEADS], "pairs": [QK, MLP], "writers": ["embed"], **gauge}
    return Family.model_validate_json(json.dumps(plain))


def test_the_plain_one_is_accepted():
    assert with_gauge().gauge.pairs[0].first == QK["first"]


@pytest.mark.parametrize(
    ("gauge", "message"),
    [
        ({"writers": ["embedding"]}, "a tensor embedding, which does not exist"),
        ({"writers": ["norm_final.gain", W + "z"]}, "which does not exist"),
        ({"pairs": [{**QK, "space": "mlp"}]}, "one axis mlp"),
        ({"pairs": [{**QK, "second": "embed"}]}, "embed with one axis head_dim"),
        ({"pairs": [{**QK, "second": QK["first"]}]}, "with itself"),
        ({"pairs": [{**MLP, "group": "general-linear"}]}, "whose heads no `permuted` orders"),
        (
            {"pairs": [{**QK, "group": "permutation-positive-scale"}]},
            r"further axes \['head'\], where \[\]",
        ),
        ({"permuted": []}, "whose heads no `permuted` orders"),
        ({"permuted": [{**HEADS, "space": "mlp"}]}, "one axis mlp"),
        ({"permuted": [HEADS, HEADS]}, "more than one axis"),
        ({"pairs": [{**QK, "group": "orthogonal"}]}, "general-linear"),
    ],
)
def test_data_that_do_not_fit_the_axis_table_are_refused(gauge, message):
    with pytest.raises(ValidationError, match=message):
        with_gauge(**gauge)


def test_pairs_and_orders_are_written_out_by_block(dyck):
    pairs = [(layer, pair.first, pair.second) for layer, pair in dyck.pairs]
    assert (1, "blocks.1.attn.W_V", "blocks.1.attn.W_O") in pairs
    assert len(pairs) == 6
    assert dyck.permuted[1][1].tensors[0] == "blocks.1.attn.W_Q"
    assert set(dyck.writers) == {
        "embed",
        "position_code",
        *(f"blocks.{i}.{name}" for i in (0, 1) for name in ("attn.W_O", "mlp.W_out")),
    }
    assert dyck.head_components[1, 3] == "blocks.1.attn.head.3"
    assert len(dyck.head_components) == 8
