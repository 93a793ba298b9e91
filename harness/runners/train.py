"""Training a subject from a recipe, and the accuracy it reaches on fresh sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

from harness.corpora.block import Block, SampleRange
from harness.corpora.dyck3 import Dyck3, Task
from harness.runners.blocks import rows, to_torch
from harness.runners.trainer import interruptible, make_trainer, set_threads
from harness.streams import torch_seed
from harness.subjects.dyck import DyckTransformer, initialise
from harness.subjects.dyck_config import DyckConfig
from harness.subjects.loading import load
from harness.subjects.recipe import Recipe
from harness.subjects.reference import locate
from harness.subjects.subject import DyckSubject
from prereg.errors import InputError

Keep = Callable[[int, Mapping[str, Tensor]], None]

_CHUNK_BATCHES = 128  # the corpus is drawn this many batches at a time


class BatchStream(IterableDataset[Block]):
    """The recipe's training batches in order: batch i holds samples i*batch .. (i+1)*batch - 1."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def __iter__(self) -> Iterator[Block]:
        corpus = Dyck3(self.recipe.data_seed, task=self.recipe.task)
        size, total = self.recipe.batch, self.recipe.batch * self.recipe.steps
        for start in range(0, total, size * _CHUNK_BATCHES):
            stop = min(start + size * _CHUNK_BATCHES, total)
            chunk = to_torch(corpus.sample(SampleRange("train", start, stop)))
            for at in range(0, stop - start, size):
                yield rows(chunk, at, at + size)


def task_loss(logits: Mapping[str, Tensor], block: Block) -> Tensor:
    """Cross-entropy in nats, mean over non-padding positions, then mean over output heads."""
    losses = [
        functional.cross_entropy(logits[head][block.mask], target[block.mask])
        for head, target in block.targets.items()
    ]
    return torch.stack(losses).mean()


def imitation_loss(
    logits: Mapping[str, Tensor], taught: Mapping[str, Tensor], block: Block
) -> Tensor:
    """KL(teacher || model) in nats, mean over non-padding positions, then over output heads.

    Args:
        logits: of the model, by output head, [b, t, classes].
        taught: of the teacher, same heads and shapes.
        block: whose mask says which positions count.
    """
    losses = []
    for head, scores in logits.items():
        log_q, log_p = (x[block.mask].log_softmax(-1) for x in (scores, taught[head]))
        losses.append((log_p.exp() * (log_p - log_q)).sum(-1).mean())
    return torch.stack(losses).mean()


class TrainSubject(LightningModule):
    """Minimises `task_loss`, or `imitation_loss`, by the recipe's optimiser and schedule."""

    def __init__(
        self, model: DyckTransformer, recipe: Recipe, *, teacher: DyckTransformer | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.recipe = recipe
        self.teacher = teacher

    def training_step(self, block: Block, _: int) -> Tensor:
        logits = self.model(block.ids)
        if self.teacher is None:
            loss = task_loss(logits, block)
        else:
            with torch.no_grad():
                taught = self.teacher(block.ids)
            loss = imitation_loss(logits, taught, block)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> Any:
        spec = self.recipe.optimiser
        optimiser = torch.optim.AdamW(
            [weight for weight in self.model.parameters() if weight.requires_grad],
            lr=spec.lr,
            betas=spec.betas,
            weight_decay=spec.weight_decay,
            fused=True,
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: spec.rate(step, steps=self.recipe.steps)
        )
        return [optimiser], [{"scheduler": schedule, "interval": "step"}]


class Checkpoints(Callback):
    """Hands the weights over after each of the recipe's checkpoint steps."""

    def __init__(self, steps: Sequence[int], keep: Keep) -> None:
        self.steps, self.keep = frozenset(steps), keep

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: Any) -> None:
        """After optimiser step `trainer.global_step`."""
        if trainer.global_step in self.steps:
            model = cast(TrainSubject, module).model
            self.keep(trainer.global_step, {n: w.clone() for n, w in model.state_dict().items()})


def train(
    recipe: Recipe,
    *,
    keep: Keep = lambda step, weights: None,
    callbacks: Sequence[Callback] = (),
    **trainer_options: Any,
) -> DyckTransformer:
    """The model that the recipe ends with.

    Args:
        recipe: what to train.
        keep: called with step and weights at every checkpoint of the recipe.
        callbacks: further callbacks of the Trainer.
        trainer_options: the Lightning Trainer's own.

    Raises:
        InputError: a model that the recipe names has another shape.
    """
    set_threads()
    model = DyckTransformer(DyckConfig.model_validate(recipe.config))
    start = torch.Generator().manual_seed(torch_seed(recipe.init_seed, "init"))
    initialise(model, generator=start, std=recipe.init_std)
    if recipe.start is not None:
        model.load_state_dict(_donor(model, recipe.start, "with which it starts").weights())
    teacher = None
    if recipe.teacher is not None:
        teacher = _donor(model, recipe.teacher, "whose outputs are learnt").model
    if recipe.shared_io is not None:
        _share_io(model, recipe.shared_io)
    trainer = make_trainer(
        max_steps=recipe.steps,
        gradient_clip_val=recipe.optimiser.clip_norm,
        callbacks=[Checkpoints(recipe.checkpoints, keep), *callbacks],
        **trainer_options,
    )
    with interruptible():
        trainer.fit(
            TrainSubject(model, recipe, teacher=teacher),
            DataLoader(BatchStream(recipe), batch_size=None),
        )
    return model


def _donor(model: DyckTransformer, reference: str, role: str) -> DyckSubject:
    """The model of that reference, of the same shape."""
    donor = locate(reference)
    if donor.config != model.config:
        raise InputError(
            f"the shape of {reference}, {role}",
            expected=f"the recipe's own: {model.config}",
            fix="name a model of the recipe's shape",
            code="recipe.other-shape",
        )
    return load(donor)


def _share_io(model: DyckTransformer, reference: str) -> None:
    """Gives the model the input and output weights of another, and freezes them."""
    donor = _donor(model, reference, "whose input and output weights are to be shared")
    given, own = donor.weights(), dict(model.named_parameters())
    with torch.no_grad():
        for name in donor.architecture.shared_io:
            own[name].copy_(given[name])
            own[name].requires_grad_(False)


def accuracies(
    model: DyckTransformer, *, seed: int, sequences: int, task: Task = "standard"
) -> dict[str, float]:
    """Share of non-padding positions that each head labels right, on fresh standard sequences.

    Args:
        model: what to test.
        seed: corpus seed of the sequences, which are the first of the split `evaluate`.
        sequences: how many.
        task: whose labels are right.
    """
    corpus = Dyck3(seed, task=task)
    block_size = 64
    right = dict.fromkeys(model.config.heads, 0)
    seen = 0
    with torch.inference_mode():
        for start in range(0, sequences, block_size):
            stop = min(start + block_size, sequences)
            block = to_torch(corpus.sample(SampleRange("evaluate", start, stop)))
            logits = model(block.ids)
            seen += int(block.mask.sum())
            for head, target in block.targets.items():
                right[head] += int((logits[head].argmax(-1) == target)[block.mask].sum())
    return {head: count / seen for head, count in right.items()}
