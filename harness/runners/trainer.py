"""The one place that makes Trainers and sets thread counts."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import RichProgressBar

THREADS_VARIABLE = "PREBENCH_THREADS"


def set_threads() -> int:
    """Sets torch's thread count from `PREBENCH_THREADS` (default 1) and returns it.

    One thread a process is bit-reproducible; two were neither reproducible nor faster on models of
    this size, so parallelism goes over processes.
    """
    threads = int(os.environ.get(THREADS_VARIABLE, "1"))
    torch.set_num_threads(threads)
    return threads


@contextmanager
def interruptible() -> Iterator[None]:
    """Turns the process exit that Lightning makes of an interrupt into the interrupt again.

    Who holds an attempt open can then record what happened, and the command line can say it.
    """
    try:
        yield
    except SystemExit as error:
        raise KeyboardInterrupt from error


def make_trainer(**options: Any) -> Trainer:
    """A Trainer that logs, checkpoints and seeds nothing by itself.

    `options` are the Trainer's own (accelerator, devices, num_nodes, strategy, precision, ...) and
    win over the defaults below. `use_distributed_sampler` is off because Lightning's sampler pads
    with duplicates.
    """
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*`inference_mode`.*")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
    interactive = sys.stderr.isatty()
    defaults: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_model_summary": False,
        "enable_progress_bar": interactive,
        "use_distributed_sampler": False,
    }
    bar = [RichProgressBar(console_kwargs={"stderr": True})] if interactive else []
    callbacks = [*bar, *options.pop("callbacks", ())]
    return Trainer(**{**defaults, **options}, callbacks=callbacks)
