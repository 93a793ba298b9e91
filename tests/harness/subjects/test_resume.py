"""Going on from a residual state: the same logits as an edit there, at the cost of what is left."""

from __future__ import annotations

import pytest
import torch

from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.runners.blocks import to_torch
from harness.subjects.dyck import MLP, Attention
from prereg.errors import InputError

SITES = (
    "hook_embed",
    *(f"blocks.{b}.hook_resid_{w}" for b in (0, 1) for w in ("pre", "mid", "post")),
)


@pytest.fixture
def block():
    return to_torch(Dyck3(1).sample(SampleRange("fit", 0, 6)))


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[head], b[head]) for head in a)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("site", SITES)
def test_the_logits_are_those_of_an_edit_bit_for_bit(make_subject, block, site, dtype):
    subject = make_subject(dtype=dtype)
    plain = subject.forward(block, capture=[site])
    states = plain.captured[site]
    assert equal(subject.resume(site, states, block), plain.logits)
    generator = torch.Generator().manual_seed(1)
    foreign = states + torch.randn(states.shape, generator=generator, dtype=dtype)
    edited = subject.forward(block, edits={site: lambda _: foreign}).logits
    assert equal(subject.resume(site, foreign, block), edited)
    assert not equal(edited, plain.logits)


def test_every_site_of_the_residual_stream_can_be_resumed(make_subject):
    architecture = make_subject().architecture
    stream = [s for s in architecture.sites if "resid" in s or s == "hook_embed"]
    assert [name for name, _ in make_subject().model.flow] == stream == list(SITES)


@pytest.mark.parametrize(
    "site",
    [
        "blocks.0.attn.hook_z",
        "blocks.1.hook_attn_out",
        "blocks.0.mlp.hook_post",
        "blocks.2.hook_resid_pre",
        "blocks.0.attn.head.1",
        "nowhere",
    ],
)
def test_any_other_site_is_refused(make_subject, block, site):
    with pytest.raises(InputError, match=r"residual stream: hook_embed, .*resid_post") as caught:
        make_subject().resume(site, torch.zeros(*block.ids.shape, 64), block)
    assert caught.value.code == "subject.cannot-resume"
    assert site in caught.value.found


def test_states_of_another_shape_are_refused(make_subject, block):
    for shape in ((5, 64, 64), (6, 64, 16), (64,)):
        with pytest.raises(ValueError, match="of shape"):
            make_subject().resume(SITES[1], torch.zeros(shape, dtype=torch.float64), block)


@pytest.mark.parametrize(
    ("site", "attentions", "mlps"),
    [
        (site, left_attentions, left_mlps)
        for site, left_attentions, left_mlps in zip(
            SITES, (2, 2, 1, 1, 1, 0, 0), (2, 2, 2, 1, 1, 1, 0), strict=True
        )
    ],
)
def test_only_the_layers_behind_the_site_are_computed(make_subject, block, site, attentions, mlps):
    subject = make_subject()
    entered = []
    for module in subject.model.modules():
        if isinstance(module, Attention | MLP):
            module.register_forward_pre_hook(lambda entering, _: entered.append(type(entering)))
    states = torch.zeros(*block.ids.shape, 64, dtype=torch.float64)
    subject.resume(site, states, block)
    assert (entered.count(Attention), entered.count(MLP)) == (attentions, mlps)


def test_nothing_of_the_block_but_its_shape_is_read(make_subject, block):
    subject = make_subject()
    states = subject.forward(block, capture=SITES).captured
    blank = block._replace(ids=torch.zeros_like(block.ids))
    for site in SITES:
        resumed = [subject.resume(site, states[site], b) for b in (block, blank)]
        assert equal(*resumed)
