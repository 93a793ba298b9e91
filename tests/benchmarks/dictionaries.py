"""TopK training against sae-lens' own trainer, on the same batches from the same weights.

Machines are shared and noisy, so nothing here is a test: each figure is tokens a CPU second, the
best of several tries taken in turn, on one thread; and only their ratio means anything. sae-lens is
no dependency of prebench: run this with an interpreter that has both.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from harness.runners.trainer import set_threads
from harness.sae.activations import Normalisation
from harness.sae.learner import Learner
from harness.sae.recipe import DictionaryOptimiser, DictionaryRecipe, Feed
from harness.sae.train import TrainDictionaries, fit

TRIES = 3
BATCH_TOKENS = 4096  # sae-lens' default
KEY = ("site", "topk")


class Setting(NamedTuple):
    """Shape of the states and the dictionary, and the steps that are timed and compared.

    Fewer steps than the 1,000 after which sae-lens begins to count features as dead, so its
    auxiliary loss is zero.
    """

    d: int
    width: int
    k: int
    timed: int
    compared: int


SETTINGS = (Setting(64, 512, 16, timed=40, compared=400), Setting(512, 4096, 32, 6, 25))


class Run(NamedTuple):
    """Loss of every step, and CPU seconds of all of them."""

    losses: Tensor
    seconds: float


Train = Callable[[list[Tensor]], Run]


def states(setting: Setting, steps: int) -> list[Tensor]:
    """Batches of sums of k of `width` random directions, and a little noise; E|x|^2 is about d."""
    start = torch.Generator().manual_seed(0)
    directions = torch.randn(setting.width, setting.d, generator=start) / setting.k**0.5
    batches = []
    for _ in range(steps):
        chances = torch.rand(BATCH_TOKENS, setting.width, generator=start) * setting.width
        codes = (chances < setting.k) * (0.5 + chances / setting.k)
        noise = torch.randn(BATCH_TOKENS, setting.d, generator=start)
        batches.append(codes @ directions + 0.1 * noise)
    return batches


def learner(setting: Setting, steps: int) -> Learner:
    """Weights to start from, and the recipe of sae-lens' defaults, at three times its rate."""
    recipe = DictionaryRecipe(
        kind="topk",
        k=setting.k,
        width=setting.width,
        steps=steps,
        decoder_norm=0.1,
        optimiser=DictionaryOptimiser(lr=1e-3, decay_fraction=0.0),
        feed=Feed(batch_tokens=BATCH_TOKENS),
    )
    return Learner(recipe, Normalisation(torch.zeros(setting.d), 1.0), site=KEY[0])


def ours(setting: Setting, batches: list[Tensor]) -> Run:
    """Through the shipped LightningModule and its Trainer."""
    module = TrainDictionaries({KEY: learner(setting, len(batches))})
    begun = time.process_time()
    fit(module, [{KEY[0]: batch} for batch in batches])
    return Run(torch.stack(module.losses[KEY]), time.process_time() - begun)


def theirs(setting: Setting, batches: list[Tensor], *, sparse: bool) -> Run:
    """Through sae-lens' SAETrainer; `sparse` is its own option for the decoder.

    Its sparse backward pass refuses codes that are divided by row norms, so there the selection
    ignores the norms: the same work, but not quite the same function.
    """
    from sae_lens import TopKTrainingSAE, TopKTrainingSAEConfig
    from sae_lens.config import SAETrainerConfig
    from sae_lens.training.sae_trainer import SAETrainer

    sae = TopKTrainingSAE(
        TopKTrainingSAEConfig(
            d_in=setting.d,
            d_sae=setting.width,
            k=setting.k,
            use_sparse_activations=sparse,
            rescale_acts_by_decoder_norm=not sparse,
        )
    )
    start = learner(setting, len(batches))
    with torch.no_grad():
        sae.W_enc.copy_(start.encoder.T)
        sae.W_dec.copy_(start.W_dec)
        sae.b_enc.zero_()
        sae.b_dec.zero_()

    def provide() -> Iterator[Tensor]:
        yield from batches

    trainer = SAETrainer(
        SAETrainerConfig(
            total_training_samples=len(batches) * BATCH_TOKENS,
            train_batch_size_samples=BATCH_TOKENS,
            lr=start.recipe.optimiser.lr,
            lr_end=start.recipe.optimiser.lr,
        ),
        sae=sae,
        data_provider=provide(),
    )
    losses = []
    step = trainer.step

    def recording(batch: Tensor):  # type: ignore[no-untyped-def]
        output = step(batch)
        losses.append(output.losses["mse_loss"].detach())
        return output

    trainer.step = recording
    begun = time.process_time()
    trainer.fit()
    return Run(torch.stack(losses), time.process_time() - begun)


def best(runs: Mapping[str, Train], batches: list[Tensor]) -> dict[str, float]:
    """Shortest CPU time of each; in turn, so that the machine's other load falls on all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(TRIES):
        for name, run in runs.items():
            seconds[name].append(run(batches).seconds)
    return {name: min(found) for name, found in seconds.items()}


def compare(setting: Setting) -> None:
    """Prints one setting's rates, their ratios, and how far apart the loss curves are."""
    runs: dict[str, Train] = {
        "prebench": partial(ours, setting),
        "sae-lens": partial(theirs, setting, sparse=False),
        "sae-lens, sparse activations": partial(theirs, setting, sparse=True),
    }
    seconds = best(runs, states(setting, setting.timed))
    print(f"d {setting.d}, width {setting.width}, k {setting.k}")
    for name, spent in seconds.items():
        print(
            f"  {name}: {setting.timed * BATCH_TOKENS / spent:,.0f} tokens a CPU second;"
            f" prebench is {spent / seconds['prebench']:.2f} x as fast"
        )
    batches = states(setting, setting.compared)
    curves = {name: run(batches).losses for name, run in runs.items()}
    own = curves["prebench"]
    print(f"  loss over {setting.compared} steps: {own[0]:.4g} -> {own[-1]:.4g}")
    for name, curve in curves.items():
        print(f"  {name}: its losses differ by at most {float((curve / own - 1).abs().max()):.3%}")


def main() -> None:
    """Prints the comparison."""
    set_threads()
    if importlib.util.find_spec("sae_lens") is None:
        sys.exit(
            "sae-lens is not installed here; into a virtual environment with prebench in it:\n"
            "  pip install sae-lens\n"
            "  pip uninstall -y torchvision   # if it was pulled in for another torch"
        )
    for setting in SETTINGS:
        compare(setting)


if __name__ == "__main__":
    main()
