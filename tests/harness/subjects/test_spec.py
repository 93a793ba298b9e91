"""The constructive spec: its numbers by hand, what may not change them, and what is refused."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torchmetrics.utilities import dim_zero_max, dim_zero_sum

from harness.case import Case, Samples
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.gauge.fit import haar
from harness.gauge.residual import fold, rotate
from harness.runners.blocks import BlockStream, to_torch
from harness.runners.measure import MeasuringPass
from harness.runners.spec import LEAST_SAMPLES, SpecMeter, constructive_spec
from harness.statistics.explained_variance import explained_variance
from harness.statistics.readout import RESOLUTION
from harness.streams import generator
from harness.subjects.dyck_config import DyckConfig
from harness.subjects.spec import FeatureSpec, MlpSpec, Spec
from harness.subjects.subject import DyckSubject
from prereg.errors import Exit, InputError

CORPUS = Dyck3(7)
SAMPLES = SampleRange("fit", 32, 32 + 72)
NAMES = ("token", "position", "copy", "depth", "valid")


def spec_of(subject, *, corpus=CORPUS, samples=SAMPLES, block_size=16):
    return constructive_spec(
        subject, corpus=corpus, samples=samples, block_size=block_size, trainer_options={}
    )


def numbers(spec):
    """Every number of a spec, in order; null is infinite; without `folding`, which is rounding."""
    found = []

    def walk(value):
        if isinstance(value, dict):
            for key in sorted(value):
                if key != "folding":
                    walk(value[key])
        elif isinstance(value, list | tuple):
            for item in value:
                walk(item)
        elif not isinstance(value, str):
            found.append(math.inf if value is None else float(value))

    walk(spec.model_dump())
    return found


# --- the whole spec ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def zoo_spec(zoo_pair):
    return spec_of(zoo_pair[0])


def test_the_record_has_the_plain_shape_that_reports_draw(zoo_pair, zoo_spec):
    plain = zoo_spec.model_dump(mode="json")
    assert list(plain) == [
        "parameters", "folded", "heads", "mlps", "features", "samples", "tokens", "folding",
    ]  # fmt: skip
    assert [head["component"] for head in plain["heads"]] == [
        f"blocks.{layer}.attn.head.{head}" for layer in (0, 1) for head in range(4)
    ]
    assert all(
        list(head) == ["component", "qk_norm", "qk_rank", "ov_norm", "ov_rank"]
        for head in plain["heads"]
    )
    assert [list(mlp) for mlp in plain["mlps"]] == [["component", "neurons", "alive", "norm"]] * 2
    assert [mlp["component"] for mlp in plain["mlps"]] == ["blocks.0.mlp", "blocks.1.mlp"]
    assert list(plain["features"]) == ["sites", "names", "r2"]
    assert plain["features"]["names"] == list(NAMES)
    spaces = zoo_pair[0].architecture.site_spaces
    assert plain["features"]["sites"] == [
        site for site in zoo_pair[0].architecture.sites if spaces[site] == "residual"
    ]
    assert plain["parameters"] == 104_448
    assert plain["folded"] is True
    assert Spec.model_validate_json(zoo_spec.model_dump_json()) == zoo_spec


def test_counts_are_those_of_the_samples(zoo_spec):
    mask = CORPUS.sample(SAMPLES).mask
    assert (zoo_spec.samples, zoo_spec.tokens) == (72, int(mask.sum()))
    assert zoo_spec.tokens < mask.size  # there is padding


def test_norms_and_ranks_are_those_of_the_folded_products(zoo_pair, zoo_spec):
    """Written out for one head of each layer, from the stored weights and their gains."""
    for layer, head in ((0, 2), (1, 3)):
        stored = {name: w.double().numpy() for name, w in zoo_pair[0].weights().items()}
        gain = stored[f"blocks.{layer}.norm_attn.gain"][:, None]
        q, k, v = (gain * stored[f"blocks.{layer}.attn.W_{which}"][head] for which in "QKV")
        o = stored[f"blocks.{layer}.attn.W_O"][head]
        found = zoo_spec.heads[4 * layer + head]
        for matrix, norm, rank in (
            (q @ k.T, found.qk_norm, found.qk_rank),
            (v @ o, found.ov_norm, found.ov_rank),
        ):
            squared = np.linalg.svd(matrix, compute_uv=False) ** 2
            p = squared[squared > 1e-20 * squared[0]] / squared.sum()
            assert norm == pytest.approx(math.sqrt((matrix**2).sum()), rel=1e-12)
            assert rank == pytest.approx(math.exp(-(p * np.log(p)).sum()), rel=1e-9)
    into = stored["blocks.1.norm_mlp.gain"][:, None] * stored["blocks.1.mlp.W_in"]
    parts = [
        np.linalg.norm(np.outer(into[:, i], stored["blocks.1.mlp.W_out"][i])) for i in range(256)
    ]
    assert zoo_spec.mlps[1].norm == pytest.approx(math.sqrt(np.square(parts).sum()), rel=1e-12)


def test_features_are_predicted_from_the_states_of_the_folded_model(zoo_pair, zoo_spec):
    """Written out: all states at once, even samples fitted, odd ones evaluated."""
    subject = zoo_pair[0]
    plain = subject.with_weights({name: w.double() for name, w in subject.weights().items()})
    folded = plain.with_weights(fold(plain.weights(), plain.architecture))
    block = to_torch(CORPUS.sample(SAMPLES))
    states = folded.forward(block, capture=zoo_spec.features.sites).captured
    mask = block.mask
    fit = (block.sample_ids % 2 == 0)[:, None].expand_as(mask)[mask].numpy()
    targets = {head: values[mask].numpy() for head, values in block.targets.items()}
    position = np.broadcast_to(np.arange(64.0), mask.shape)[mask.numpy()]
    features = {
        "token": np.eye(40)[block.ids[mask].numpy()],
        "position": position[:, None],
        "copy": np.eye(40)[targets["copy"]],
        "depth": np.eye(9)[targets["depth"]],
        "valid": np.eye(2)[targets["valid"]],
    }
    for site, row in zip(zoo_spec.features.sites, zoo_spec.features.r2, strict=True):
        x = states[site][mask].numpy()
        centred = x - x[fit].mean(0)
        largest = np.linalg.norm(centred[fit], 2)
        cut = math.sqrt(RESOLUTION) * np.linalg.norm(x[fit]) / largest
        for name, found in zip(NAMES, row, strict=True):
            y = features[name]
            beta = np.linalg.pinv(centred[fit], rcond=cut) @ (y[fit] - y[fit].mean(0))
            expected = explained_variance(centred[~fit] @ beta + y[fit].mean(0), y[~fit])
            assert found == pytest.approx(expected, abs=1e-4), (site, name)


def test_what_is_known_of_a_trained_model(zoo_pair, zoo_spec):
    """Token and position are in the stream from the start; depth and validity are computed."""
    r2 = {
        site: dict(zip(NAMES, row, strict=True))
        for site, row in zip(zoo_spec.features.sites, zoo_spec.features.r2, strict=True)
    }
    assert r2["hook_embed"]["token"] == pytest.approx(1, abs=1e-9)
    assert r2["blocks.0.hook_resid_pre"]["position"] == pytest.approx(1, abs=1e-9)
    assert r2["hook_embed"]["position"] < 0.3
    for feature in ("depth", "valid"):
        assert r2["blocks.0.hook_resid_pre"][feature] < 0.3
        assert r2["blocks.1.hook_resid_post"][feature] > 0.8
    untrained = spec_of(zoo_pair[0].fresh(generator=torch.Generator().manual_seed(1)))
    assert untrained.features.r2[-1][NAMES.index("depth")] < 0.5


def test_a_neuron_is_alive_if_it_fires_on_a_token_that_is_not_padding(make_subject):
    subject = make_subject()
    weights = subject.weights()
    dead = weights["blocks.0.mlp.W_in"].clone()
    dead[:, :30] = 0
    weights["blocks.0.mlp.W_in"] = dead
    subject = subject.with_weights(weights)
    block = to_torch(CORPUS.sample(SAMPLES))
    found = spec_of(subject).mlps
    assert found[0].neurons == 256
    assert found[0].alive <= 226
    for layer, mlp in enumerate(found):
        site = f"blocks.{layer}.mlp.hook_post"
        fires = subject.forward(block, capture=[site]).captured[site] > 0
        assert mlp.alive == int(fires[block.mask].any(0).sum())


def test_a_neuron_that_fires_on_padding_alone_is_not_alive(make_subject):
    """Coordinate 20 is 1 on padding and -1 elsewhere, and neurons 0..4 read nothing else."""
    subject = make_subject()
    weights = {name: tensor.clone() for name, tensor in subject.weights().items()}
    weights["embed"][:, 20] = -1
    weights["embed"][0, 20] = 1
    weights["blocks.0.attn.W_O"][..., 20] = 0
    weights["blocks.0.mlp.W_in"][:, :5] = 0
    weights["blocks.0.mlp.W_in"][20, :5] = 1
    blind = {**weights, "blocks.0.mlp.W_in": weights["blocks.0.mlp.W_in"].clone()}
    blind["blocks.0.mlp.W_in"][20, :5] = 0
    subject, blind = subject.with_weights(weights), subject.with_weights(blind)
    block = to_torch(CORPUS.sample(SAMPLES))
    site = "blocks.0.mlp.hook_post"
    assert bool((subject.forward(block, capture=[site]).captured[site][..., :5] > 0).any())
    assert spec_of(subject).mlps[0].alive == spec_of(blind).mlps[0].alive


# --- what changes a spec and what does not -------------------------------------------------------


def moved(weights, architecture, rng):
    """Folded weights, moved by a random element of the group: all but the order of the heads."""
    found = rotate(weights, architecture, torch.from_numpy(haar(64, generator=rng)))
    for layer in (0, 1):
        name = f"blocks.{layer}.attn.W_"
        for first, second in ("QK", "VO"):
            a, b = found[name + first].clone(), found[name + second].clone()
            for head in range(4):
                left, right = haar(16, generator=rng), haar(16, generator=rng)
                g = torch.from_numpy(left @ np.diag(rng.uniform(0.5, 2, 16)) @ right)
                a[head] = a[head] @ g
                inverse = torch.linalg.inv(g)
                b[head] = b[head] @ inverse.T if second == "K" else inverse @ b[head]
            found[name + first], found[name + second] = a, b
        order = torch.from_numpy(rng.permutation(256))
        scale = torch.from_numpy(rng.uniform(0.2, 5, 256))
        into, out = f"blocks.{layer}.mlp.W_in", f"blocks.{layer}.mlp.W_out"
        found[into] = found[into][:, order] * scale
        found[out] = found[out][order] / scale[:, None]
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_no_element_of_the_gauge_group_changes_a_number(make_subject, seed):
    subject = make_subject(seed)
    folded = fold(subject.weights(), subject.architecture)
    rng = generator(seed, "test")
    other = subject.with_weights(moved(folded, subject.architecture, rng))
    block = to_torch(CORPUS.sample(SAMPLES))
    logits = [model.forward(block).logits for model in (subject, other)]
    for head, values in logits[0].items():  # the element is one of the group
        torch.testing.assert_close(values, logits[1][head], rtol=1e-8, atol=1e-8)
    assert numbers(spec_of(other)) == pytest.approx(numbers(spec_of(subject)), rel=1e-6, abs=1e-6)


def test_the_order_of_heads_reorders_the_list(make_subject):
    subject = make_subject()
    order = [2, 0, 3, 1]
    weights = dict(subject.weights())
    for which in "QKVO":
        name = f"blocks.1.attn.W_{which}"
        weights[name] = weights[name][order]
    plain, permuted = spec_of(subject), spec_of(subject.with_weights(weights))
    for place, head in enumerate(order):
        a, b = permuted.heads[4 + place], plain.heads[4 + head]
        assert a.model_dump(exclude={"component"}) == b.model_dump(exclude={"component"})
    assert permuted.heads[:4] == plain.heads[:4]


def test_gains_are_part_of_the_spec_wherever_they_stand(make_subject):
    """The same function with other gains: a gain moved into its readers changes no number."""
    subject = make_subject()
    folded = fold(subject.weights(), subject.architecture)
    gain = torch.linspace(0.5, 2, 64, dtype=torch.float64)
    weights = dict(folded)
    weights["blocks.1.norm_attn.gain"] = gain
    for which in "QKV":
        name = f"blocks.1.attn.W_{which}"
        weights[name] = weights[name] / gain[:, None]
    plain = numbers(spec_of(subject))
    assert numbers(spec_of(subject.with_weights(folded))) == pytest.approx(
        plain, rel=1e-6, abs=1e-6
    )
    assert numbers(spec_of(subject.with_weights(weights))) == pytest.approx(
        plain, rel=1e-6, abs=1e-6
    )


def test_a_factor_on_all_writers_multiplies_what_writes_and_nothing_else(make_subject):
    subject = make_subject()
    weights = dict(subject.weights())
    for name in subject.architecture.writers:
        weights[name] = 3 * weights[name]
    plain, other = spec_of(subject), spec_of(subject.with_weights(weights))
    for a, b in zip(plain.heads, other.heads, strict=True):
        assert (b.qk_norm, b.qk_rank, b.ov_rank) == pytest.approx((a.qk_norm, a.qk_rank, a.ov_rank))
        assert b.ov_norm == pytest.approx(3 * a.ov_norm)
    for a, b in zip(plain.mlps, other.mlps, strict=True):
        assert b.norm == pytest.approx(3 * a.norm)
        assert b.neurons == a.neurons
    first = [spec.features.r2[0] for spec in (plain, other)]  # the eps of no norm stands before it
    assert first[1] == pytest.approx(first[0], abs=1e-9)


@pytest.mark.parametrize(
    ("tensor", "field"),
    [("W_Q", "qk_norm"), ("W_K", "qk_norm"), ("W_V", "ov_norm"), ("W_O", "ov_norm")],
)
def test_twice_a_weight_is_twice_the_norm_of_one_product(make_subject, tensor, field):
    subject = make_subject()
    weights = dict(subject.weights())
    name = f"blocks.1.attn.{tensor}"
    weights[name] = weights[name].clone()
    weights[name][3] *= 2
    plain = spec_of(subject).heads
    other = spec_of(subject.with_weights(weights)).heads
    assert other[:7] == plain[:7]
    a, b = plain[7].model_dump(), other[7].model_dump()
    assert b.pop(field) == pytest.approx(2 * a.pop(field), rel=1e-12)
    assert b.pop("component") == a.pop("component")
    assert b == pytest.approx(a, rel=1e-9)


def test_the_size_of_blocks_does_not_matter(make_subject):
    subject = make_subject()
    plain = numbers(spec_of(subject))
    for size in (1, 7, 100):
        assert numbers(spec_of(subject, block_size=size)) == pytest.approx(plain, abs=1e-6)


def test_a_model_stored_in_single_precision_is_measured_in_double(make_subject):
    single = make_subject(dtype=torch.float32)
    double = single.with_weights({name: w.double() for name, w in single.weights().items()})
    assert spec_of(single) == spec_of(double)
    assert spec_of(single).folding < 1e-9


# --- the pass ------------------------------------------------------------------------------------


def fed(case, *, rank=0, world=1):
    """A meter after the share that a rank has of a pass."""
    meter = SpecMeter(case)
    module = MeasuringPass(
        [meter], corpus=CORPUS, samples=SAMPLES, block_size=4, capture=meter.captured
    )
    for batch in BlockStream(CORPUS, SAMPLES, size=4, rank=rank, world=world):
        module.test_step(batch)
    return meter


@pytest.mark.parametrize("seeds", [(0, 1), (1, 0), (0, 2), (2, 3), (3, 2), (4, 5)])
def test_folding_is_the_largest_difference_of_a_logit_that_is_not_padding(make_subject, seeds):
    one, other = map(make_subject, seeds)
    meter = fed(Case(one, other, Samples(SAMPLES, SAMPLES)))
    block = to_torch(CORPUS.sample(SAMPLES))
    a, b = one.forward(block).logits, other.forward(block).logits
    expected = max(float((a[head] - b[head])[block.mask].abs().max()) for head in a)
    assert float(meter.folding) == pytest.approx(expected, rel=1e-12)


def test_a_difference_on_padding_is_none(make_subject):
    """What stands for padding is another vector, which no token before it sees."""
    subject = make_subject()
    weights = dict(subject.weights())
    weights["embed"] = weights["embed"].clone()
    weights["embed"][0] += 5
    other = subject.with_weights(weights)
    assert float(fed(Case(subject, other, Samples(SAMPLES, SAMPLES))).folding) == 0


def test_ranks_together_hold_what_one_holds(make_subject):
    case = Case(make_subject(0), make_subject(1), Samples(SAMPLES, SAMPLES))
    alone, parts = fed(case), [fed(case, rank=rank, world=2) for rank in (0, 1)]
    assert all(float(part.tokens.sum()) < float(alone.tokens.sum()) for part in parts)
    for name, reduction in alone._reductions.items():
        stacked = torch.stack([getattr(part, name) for part in parts])
        assert reduction in (dim_zero_sum, dim_zero_max)
        torch.testing.assert_close(reduction(stacked), getattr(alone, name), rtol=1e-12, atol=1e-9)


class Relabelled:
    """The corpus with one label in the place of another."""

    def __init__(self, **labels):
        self.labels = labels

    def sample(self, samples):
        block = CORPUS.sample(samples)
        targets = {
            head: np.full_like(values, self.labels[head]) if head in self.labels else values
            for head, values in block.targets.items()
        }
        return block._replace(targets={k: v for k, v in targets.items() if k != "gone"})


def test_a_label_that_does_not_vary_is_null_and_the_others_are_as_before(make_subject):
    subject = make_subject()
    plain = spec_of(subject)
    found = spec_of(subject, corpus=Relabelled(valid=1))
    for row, before in zip(found.features.r2, plain.features.r2, strict=True):
        assert row[-1] is None
        assert row[:-1] == pytest.approx(before[:-1], abs=1e-12)
    assert '"valid"],"r2":[[' in found.model_dump_json()
    assert "null" in found.model_dump_json()


# --- what is refused -----------------------------------------------------------------------------


def refused(subject, **changes):
    with pytest.raises(InputError) as caught:
        spec_of(subject, **changes)
    assert caught.value.exit_code is Exit.INPUT
    return caught.value


def test_too_few_samples(make_subject):
    subject = make_subject()
    for count in (1, LEAST_SAMPLES - 1):
        error = refused(subject, samples=SampleRange("fit", 0, count))
        assert error.code == "spec.too-few-samples"
        assert str(count) in error.found
        assert str(LEAST_SAMPLES) in error.expected
    spec_of(subject, samples=SampleRange("fit", 0, LEAST_SAMPLES))


def small(**changes):
    """A small model of another shape."""
    config = DyckConfig(**{"n_layers": 1, "n_heads": 1, "d_mlp": 4, **changes})
    from harness.subjects.dyck import DyckTransformer

    weights = {name: w.double() for name, w in DyckTransformer(config).state_dict().items()}
    rng = torch.Generator().manual_seed(0)
    drawn = {name: torch.randn(w.shape, generator=rng).double() for name, w in weights.items()}
    return DyckSubject(config, drawn)


def test_too_few_tokens_for_a_wide_model():
    error = refused(small(d_model=512))
    assert error.code == "spec.too-few-samples"
    assert "2052" in error.expected  # 4 (512 + 1)
    spec_of(small(d_model=32))


def test_states_that_are_not_finite(make_subject):
    subject = make_subject()
    weights = dict(subject.weights())
    weights["position_code"] = torch.full_like(weights["position_code"], 1.7e308)
    weights["embed"] = torch.full_like(weights["embed"], 1.7e308)
    error = refused(subject.with_weights(weights))
    assert error.code == "subject.states-not-finite"
    assert "hook_resid_pre" in error.found


def test_states_and_logits_whose_squares_are_not_finite(make_subject):
    subject = make_subject()
    for name in ("embed", "unembed.depth.weight"):
        weights = {n: w.clone() for n, w in subject.weights().items()}
        weights[name][:, 3] = 1e200 if name == "embed" else 1.7e308
        assert refused(subject.with_weights(weights)).code == "spec.not-finite"


@pytest.mark.parametrize("which", ["attn.W_Q", "attn.W_V", "mlp.W_out"])
def test_products_of_weights_that_are_not_finite(make_subject, which):
    """The states are finite: what stands across from the large weight is small, or reads zeros."""
    subject = make_subject()
    weights = {n: w.clone() for n, w in subject.weights().items()}
    across = {"attn.W_Q": "attn.W_K", "attn.W_V": "attn.W_O", "mlp.W_out": "mlp.W_in"}[which]
    for name in (which, across):
        weights[f"blocks.0.{name}"] *= 1e160
    weights["embed"].zero_()
    weights["position_code"].zero_()
    error = refused(subject.with_weights(weights))
    assert error.code == "spec.not-finite"
    assert "blocks.0." in error.found


def test_a_head_without_labels():
    error = refused(small(heads={"copy": 40, "colour": 3}))
    assert error.code == "subject.unlabelled-head"
    assert "colour" in error.found


@pytest.mark.parametrize(("head", "classes"), [("depth", 4), ("valid", 1)])
def test_a_label_without_a_class(head, classes):
    error = refused(small(heads={"copy": 40, "depth": 9, "valid": 2, head: classes}))
    assert error.code == "subject.unlabelled-head"
    assert repr(head) in error.found


def test_records_that_contradict_themselves():
    with pytest.raises(ValidationError, match="2 rows of 1 values"):
        FeatureSpec(sites=("a", "b"), names=("token",), r2=((0.5,),))
    with pytest.raises(ValidationError, match="rows of 1 values"):
        FeatureSpec(sites=("a",), names=("token",), r2=((0.5, None),))
    with pytest.raises(ValidationError, match="5 of 4"):
        MlpSpec(component="blocks.0.mlp", neurons=4, alive=5, norm=1.0)
    with pytest.raises(ValidationError, match="finite"):
        MlpSpec(component="blocks.0.mlp", neurons=4, alive=4, norm=math.inf)


def test_a_head_that_writes_nothing_has_no_rank(make_subject):
    subject = make_subject()
    weights = dict(subject.weights())
    weights["blocks.0.attn.W_O"] = weights["blocks.0.attn.W_O"].clone()
    weights["blocks.0.attn.W_O"][1] = 0
    head = spec_of(subject.with_weights(weights)).heads[1]
    assert (head.ov_norm, head.ov_rank) == (0.0, None)
    assert head.qk_norm > 0


def test_the_record_needs_no_torch():
    script = "import sys; import harness.subjects.spec; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
