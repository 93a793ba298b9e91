"""Captures and edits: each fires exactly once or it is an error, and nothing outlives its pass.

What an identity edit leaves bit for bit in single precision is in `test_dyck_subject`.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter

import pytest
import torch
from torch.nn.modules import module as torch_module

from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.runners.blocks import to_torch
from harness.subjects.architecture import Architecture, family
from harness.subjects.dyck_config import DyckConfig
from harness.subjects.tap import Tap
from prereg.errors import InputError

_ARCHITECTURE = Architecture(family("dyck"), DyckConfig().model_dump())
NAMES = (*_ARCHITECTURE.sites, *_ARCHITECTURE.components)


@pytest.fixture
def block():
    return to_torch(Dyck3(1).sample(SampleRange("fit", 0, 5)))


class Same:
    """An identity edit that counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x


class Broken(Exception):  # noqa: N818 - what the body of an edit raises, whatever that is
    pass


class Raises:
    """An edit that fails."""

    def __call__(self, x):
        raise Broken(tuple(x.shape))


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[head], b[head]) for head in a)


def hooks(model):
    """How many hooks there are, on the modules of a model and on all modules."""
    per_module = [
        len(hooks)
        for m in model.modules()
        for name, hooks in vars(m).items()
        if name.endswith("hooks")
    ]
    for_all = [
        len(hooks)
        for name, hooks in vars(torch_module).items()
        if name.startswith("_global_") and isinstance(hooks, dict)
    ]
    assert len(per_module) > 10  # torch still keeps its hooks where they are looked for
    assert len(for_all) > 4
    return sum(per_module) + sum(for_all)


def inside(subject):
    """Everything that a forward pass could have changed in a subject."""
    model = subject.model
    return (
        set(vars(subject)),
        hooks(model),
        [set(vars(m)) for m in model.modules()],
        [m.training for m in model.modules()],
        {name: (p.requires_grad, p.grad) for name, p in model.named_parameters()},
    )


# --- exactly once --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_identity_edits_everywhere_at_once_fire_once_each_and_are_bit_equal(
    make_subject, block, dtype
):
    subject = make_subject(dtype=dtype)
    edits = {name: Same() for name in NAMES}
    out = subject.forward(block, capture=NAMES, edits=edits)
    assert {name: edit.calls for name, edit in edits.items()} == dict.fromkeys(NAMES, 1)
    assert equal(out.logits, subject.forward(block).logits)
    assert set(out.captured) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_identity_edit_fires_once_and_is_bit_equal(make_subject, block, name):
    subject = make_subject()
    edit = Same()
    edited = subject.forward(block, edits={name: edit}).logits
    assert edit.calls == 1
    assert equal(edited, subject.forward(block).logits)
    again = subject.forward(block, edits={name: edit}).logits
    assert edit.calls == 2  # once a pass, whatever an earlier one did
    assert equal(edited, again)


@pytest.mark.parametrize("name", NAMES)
def test_an_edit_moves_nothing_that_lies_before_it(make_subject, block, name):
    subject = make_subject()
    order = in_order(subject, block)
    plain = subject.forward(block, capture=order).captured
    edited = subject.forward(block, capture=order, edits={name: lambda x: x + 1}).captured
    place = order.index(name)
    for before in order[:place]:
        assert torch.equal(edited[before], plain[before]), before
    assert torch.equal(edited[name], plain[name] + 1)  # captured as it flows on
    last = order[-1]
    assert not torch.equal(edited[last], plain[last])


def in_order(subject, block):
    """Every name, in the order in which the model comes by."""
    seen = []

    def noting(name):
        def note(x):
            seen.append(name)
            return x

        return note

    subject.forward(block, edits={name: noting(name) for name in NAMES})
    assert sorted(seen) == sorted(NAMES)
    return seen


@pytest.mark.parametrize("kind", ["capture", "edit", "both"])
@pytest.mark.parametrize("fired", [0, 2])
def test_a_tap_that_did_not_fire_exactly_once_is_an_error(kind, fired):
    tap = Tap(
        capture=["here"] if kind != "edit" else [],
        edits={"here": Same()} if kind != "capture" else {},
    )
    for _ in range(fired):
        tap("here", torch.zeros(1))
    tap("elsewhere", torch.zeros(1))
    with pytest.raises(RuntimeError, match=rf"exactly once .*'here': {fired}}}"):
        tap.settle()


def test_a_tap_that_fired_exactly_once_is_none():
    tap = Tap(capture=["a"], edits={"b": Same(), "a": Same()})
    for name in ("a", "b", "c"):
        tap(name, torch.zeros(1))
    tap.settle()
    assert set(tap.captured) == {"a"}


def test_one_name_too_many_fails_the_whole_pass(make_subject, block):
    subject = make_subject()
    for unknown in ("blocks.2.mlp", "blocks.0.attn.head.4", "blocks.0.hook_resid", ""):
        edits = {**{name: Same() for name in NAMES}, unknown: Same()}
        with pytest.raises(RuntimeError, match="exactly once") as caught:
            subject.forward(block, edits=edits)
        assert repr(unknown) in str(caught.value)
        assert edits[unknown].calls == 0
        assert all(edits[name].calls == 1 for name in NAMES)
        with pytest.raises(RuntimeError, match="exactly once"):
            subject.forward(block, capture=[unknown])


def test_a_module_that_runs_twice_is_noticed(make_subject, block):
    """A model whose first MLP is run twice would give an effect that is not the edit's."""
    subject = make_subject()
    mlp = subject.model.blocks[0].mlp
    once = mlp.forward

    def twice(x, *, block, tap):
        once(x, block=block, tap=tap)
        return once(x, block=block, tap=tap)

    mlp.forward = twice
    assert subject.forward(block).logits  # nobody counts without a tap
    for name in ("blocks.0.mlp", "blocks.0.mlp.hook_post"):
        with pytest.raises(RuntimeError, match=rf"'{name}': 2"):
            subject.forward(block, capture=[name])
        with pytest.raises(RuntimeError, match=rf"'{name}': 2"):
            subject.forward(block, edits={name: Same()})
    subject.forward(block, capture=["blocks.1.mlp"])


def test_a_resumed_pass_cannot_fire_what_lies_behind_it(make_subject, block):
    """`settle` is what notices: the tap of a pass that starts late sees nothing before its start."""
    subject = make_subject()
    site = "blocks.1.hook_resid_pre"
    states = subject.forward(block, capture=[site]).captured[site]
    order = in_order(subject, block)
    for place, name in enumerate(order):
        tap = Tap(capture=[name], edits={})
        subject.model.resume(site, states, tap)
        if place >= order.index(site):
            tap.settle()
        else:
            with pytest.raises(RuntimeError, match=rf"'{name}': 0"):
                tap.settle()


# --- nothing survives ----------------------------------------------------------------------------


def test_a_pass_that_raised_leaves_nothing_behind(make_subject, block):
    subject = make_subject()
    plain = subject.forward(block).logits
    weights = {n: tensor.clone() for n, tensor in subject.weights().items()}
    before = inside(subject)
    left = {name: raised(subject, block, name) for name in NAMES}
    assert inside(subject) == before
    for name, tensor in subject.weights().items():
        assert torch.equal(tensor, weights[name]), name
    gc.collect()  # no tap and no frame of a pass is kept
    assert {name: ref() for name, ref in left.items()} == dict.fromkeys(NAMES)
    assert equal(subject.forward(block).logits, plain)


def raised(subject, block, name):
    """A pass that an edit of that name ends, then one that nothing does; whether the edit lives."""
    plain = subject.forward(block).logits
    broken, same = Raises(), Same()
    others = {n: same for n in NAMES if n != name}
    with pytest.raises(Broken) as caught:
        subject.forward(block, capture=NAMES, edits={**others, name: broken})
    assert caught.value.args[0][:2] == tuple(block.ids.shape), name
    assert hooks(subject.model) == 0, name
    assert equal(subject.forward(block).logits, plain), name
    fresh = Same()
    again = subject.forward(block, capture=NAMES, edits={name: fresh})
    assert fresh.calls == 1, name  # the count of the pass that raised is not added to
    assert equal(again.logits, plain), name
    return weakref.ref(broken)


def test_no_hook_is_there_before_during_or_after_a_pass(make_subject, block):
    subject = make_subject()
    assert hooks(subject.model) == 0
    seen = []

    def count(x):
        seen.append(hooks(subject.model))
        return x

    subject.forward(block, capture=NAMES, edits=dict.fromkeys(NAMES, count))
    assert seen == [0] * len(NAMES)
    with pytest.raises(Broken):
        subject.forward(block, edits={NAMES[-1]: Raises()})
    with pytest.raises(RuntimeError):
        subject.forward(block, capture=["nowhere"])
    assert hooks(subject.model) == 0


def test_a_hook_of_somebody_else_is_counted(make_subject):
    """The count that the other tests read is one that notices."""
    subject = make_subject()
    handle = subject.model.blocks[1].mlp.register_forward_hook(lambda *_: None)
    assert hooks(subject.model) == 1
    handle.remove()
    handle = torch_module.register_module_forward_hook(lambda *_: None)
    try:
        assert hooks(subject.model) > 0
    finally:
        handle.remove()
    assert hooks(subject.model) == 0


def test_captures_are_not_kept_by_the_subject(make_subject, block):
    subject = make_subject()
    before = inside(subject)
    out = subject.forward(block, capture=NAMES)
    kept = [weakref.ref(tensor) for tensor in out.captured.values()]
    assert inside(subject) == before
    del out
    gc.collect()
    assert [ref() for ref in kept] == [None] * len(kept)


def test_captures_and_edits_of_two_passes_do_not_mix(make_subject, block):
    """A pass inside an edit of another has a tap of its own."""
    subject = make_subject()
    site, component = "blocks.0.hook_resid_post", "blocks.1.attn.head.2"
    plain = subject.forward(block, capture=NAMES)
    inner = []

    def nested(x):
        inner.append(subject.forward(block, capture=NAMES, edits={site: lambda s: s * 0}))
        return x

    outer = subject.forward(block, capture=NAMES, edits={component: nested})
    assert equal(outer.logits, plain.logits)
    assert all(torch.equal(outer.captured[n], plain.captured[n]) for n in NAMES)
    assert len(inner) == 1
    assert not inner[0].captured[site].any()


def test_names_that_change_during_a_pass_do_not_change_it(make_subject, block):
    subject = make_subject()
    capture, edits = ["blocks.1.mlp"], {"hook_embed": Same()}
    calls = Counter()

    def meddle(x):
        calls["meddle"] += 1
        capture.append("blocks.0.mlp")
        edits["blocks.1.mlp"] = lambda y: y * 0
        return x

    edits["hook_embed"] = meddle
    out = subject.forward(block, capture=capture, edits=edits)
    assert calls["meddle"] == 1
    assert set(out.captured) == {"blocks.1.mlp"}
    assert equal(out.logits, subject.forward(block).logits)


def test_a_copy_on_a_device_is_edited_like_the_subject(make_subject, block):
    """The copy is kept by the subject, but no tap is."""
    subject = make_subject()
    assert subject.to(torch.device("cpu")) is subject
    other = subject.with_weights(subject.weights())
    with pytest.raises(Broken):
        other.forward(block, edits={"hook_embed": Raises()})
    assert equal(other.forward(block).logits, subject.forward(block).logits)


def test_resuming_where_nothing_goes_on_leaves_nothing_behind(make_subject, block):
    subject = make_subject()
    before, plain = inside(subject), subject.forward(block).logits
    with pytest.raises(InputError):
        subject.resume("blocks.0.mlp", torch.zeros(1), block)
    assert inside(subject) == before
    assert equal(subject.forward(block).logits, plain)
