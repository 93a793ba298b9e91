from __future__ import annotations

import math

import pytest
import torch

from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.runners.blocks import to_torch
from harness.subjects.dyck import DyckTransformer, initialise, position_code
from harness.subjects.dyck_config import DyckConfig


@pytest.fixture
def block():
    return to_torch(Dyck3(1).sample(SampleRange("fit", 0, 6)))


def by_hand(weights, ids):
    """The forward pass, one head and one position at a time, with every named state."""
    states = {}

    def norm(x, gain):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gain

    states["hook_embed"] = weights["embed"][ids]
    x = states["hook_embed"] + weights["position_code"][: ids.shape[1]]
    states["blocks.0.hook_resid_pre"] = x
    for layer in range(2):
        name = f"blocks.{layer}"
        if layer:
            states[f"{name}.hook_resid_pre"] = x
        h = norm(x, weights[f"{name}.norm_attn.gain"])
        total = torch.zeros_like(x)
        zs = []
        for head in range(4):
            q, k, v = (h @ weights[f"{name}.attn.W_{which}"][head] for which in "QKV")
            scores = q @ k.transpose(1, 2) / math.sqrt(16)
            later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            z = scores.masked_fill(later, -torch.inf).softmax(-1) @ v
            zs.append(z)
            total = total + z @ weights[f"{name}.attn.W_O"][head]
        states[f"{name}.attn.hook_z"] = torch.stack(zs, 2)
        states[f"{name}.hook_attn_out"] = total
        x = x + total
        states[f"{name}.hook_resid_mid"] = x
        post = (norm(x, weights[f"{name}.norm_mlp.gain"]) @ weights[f"{name}.mlp.W_in"]).relu()
        states[f"{name}.mlp.hook_post"] = post
        states[f"{name}.hook_mlp_out"] = post @ weights[f"{name}.mlp.W_out"]
        x = x + states[f"{name}.hook_mlp_out"]
        states[f"{name}.hook_resid_post"] = x
    final = norm(x, weights["norm_final.gain"])
    logits = {h: final @ weights[f"unembed.{h}.weight"] for h in ("copy", "depth", "valid")}
    return logits, states


def test_every_site_equals_a_forward_written_by_hand(make_subject, block):
    subject = make_subject()
    sites = list(subject.architecture.sites)
    out = subject.forward(block, capture=sites)
    logits, states = by_hand(subject.weights(), block.ids)
    assert set(states) == set(sites)
    for site in sites:
        torch.testing.assert_close(out.captured[site], states[site], rtol=1e-11, atol=1e-11)
        assert out.captured[site].shape[-1] == subject.architecture.sites[site]
    for head, expected in logits.items():
        torch.testing.assert_close(out.logits[head], expected, rtol=1e-11, atol=1e-11)


def test_sites_are_listed_in_order_of_flow(make_subject):
    sites = list(make_subject().architecture.sites)
    assert sites[0] == "hook_embed"
    assert sites.index("blocks.0.hook_resid_pre") == 1
    assert sites.index("blocks.0.hook_resid_post") < sites.index("blocks.1.hook_resid_pre")
    assert sites[-1] == "blocks.1.hook_resid_post"


def test_capture_leaves_logits_bit_identical(make_subject, block):
    subject = make_subject(dtype=torch.float32)
    plain = subject.forward(block).logits
    sites = list(subject.architecture.sites)
    for chosen in (sites, sites[::-1], sites[:1], list(subject.architecture.components)):
        logits = subject.forward(block, capture=chosen).logits
        assert all(torch.equal(logits[head], plain[head]) for head in plain)


def test_an_identity_edit_is_bit_equal_and_a_gross_one_is_not(make_subject, block):
    subject = make_subject(dtype=torch.float32)
    plain = subject.forward(block).logits
    for name in (*subject.architecture.sites, *subject.architecture.components):
        same = subject.forward(block, edits={name: lambda x: x}).logits
        assert all(torch.equal(same[head], plain[head]) for head in plain), name
        gross = subject.forward(block, edits={name: lambda x: x + 3}).logits
        assert any(not torch.equal(gross[head], plain[head]) for head in plain), name


def test_head_outputs_and_mlp_add_up_to_the_stream(make_subject, block):
    subject = make_subject()
    parts = list(subject.architecture.components)
    sites = [f"blocks.{b}.hook_resid_{w}" for b in (0, 1) for w in ("pre", "mid", "post")]
    out = subject.forward(block, capture=[*parts, *sites]).captured
    for layer in (0, 1):
        heads = sum(out[f"blocks.{layer}.attn.head.{head}"] for head in range(4))
        pre, mid, post = (out[f"blocks.{layer}.hook_resid_{w}"] for w in ("pre", "mid", "post"))
        torch.testing.assert_close(pre + heads, mid)
        torch.testing.assert_close(mid + out[f"blocks.{layer}.mlp"], post)


def test_an_unknown_site_is_an_error_and_not_silence(make_subject, block):
    with pytest.raises(RuntimeError, match="exactly once"):
        make_subject().forward(block, capture=["blocks.7.hook_resid_post"])
    with pytest.raises(RuntimeError, match="exactly once"):
        make_subject().forward(block, edits={"blocks.0.attn.head.9": lambda x: x})


def test_one_sample_alone_equals_the_same_in_a_batch(make_subject, block):
    subject = make_subject()
    together = subject.forward(block).logits
    one = block._replace(ids=block.ids[2:3], mask=block.mask[2:3])
    alone = subject.forward(one).logits
    for head, logits in alone.items():
        torch.testing.assert_close(logits[0], together[head][2], rtol=1e-12, atol=1e-12)


def test_padding_does_not_reach_real_positions(make_subject, block):
    subject = make_subject()
    noisy = block._replace(ids=torch.where(block.mask, block.ids, torch.tensor(39)))
    a, b = subject.forward(block).logits, subject.forward(noisy).logits
    for head, logits in a.items():
        assert torch.equal(logits[block.mask], b[head][block.mask])


def test_the_shipped_shape_has_104448_parameters():
    model = DyckTransformer(DyckConfig())
    assert sum(p.numel() for p in model.parameters()) == 104_448


def test_the_position_code_is_as_stated():
    code = position_code(DyckConfig()).double()
    t = 10
    expected = [t / 64, 1 / 11, math.log(11) / math.log(64), 0.0]
    expected += [math.cos(2 * math.pi * t / 64), math.sin(2 * math.pi * t / 64)]
    assert code[t, :6].tolist() == pytest.approx(expected, abs=1e-7)
    assert code[0, 3] == 1
    assert not code[:, 6:].any()


def test_initialisation_is_seeded_and_reads_no_global_generator():
    def weights(seed):
        torch.manual_seed(torch.seed() % 1000)  # poisoned on purpose
        model = DyckTransformer(DyckConfig())
        initialise(model, generator=torch.Generator().manual_seed(seed))
        return model.state_dict()

    one, two, other = weights(1), weights(1), weights(2)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["embed"], other["embed"])
    assert abs(float(one["blocks.0.mlp.W_in"].std()) - 0.02) < 5e-4
    assert bool((one["norm_final.gain"] == 1).all())
