"""The mean of a loss whose rare large errors may not have been seen (bar B).

A sequence s has n_s positions and the loss sum S_s (KL summed over its positions and averaged over
heads); it *exceeds* when S_s / n_s > tau. Per block the evidence holds

    body, tail        sum of S_s over sequences that do not exceed, that do
    capped            sum of min(S_s, c n_s)
    positions         sum of n_s                 sequences   number of sequences
    exceeding         number that exceed         largest     largest S_s among those (0 if none)
    shortest          smallest n_s

The mean over positions weighs sequences by length. With nbar = sum n_s / sum 1, held fixed, and
Y_s = S_s / nbar, it is the plain mean of Y over sequences:

    sum S_s / sum n_s = mean_s Y_s = mean_s Y_s [not exceeding] + P(exceeding) E[Y_s | exceeding].

The first term is the ratio body / positions and gets a jackknife-t interval. For the second,
sequences are drawn independently, so Clopper-Pearson limits hold for P(exceeding); an exceeding
sequence has S_s <= largest seen, or, where the largest has not been seen yet, is granted c nats a
position, so E[Y | exceeding] <= max(c, largest / nbar); and S_s > tau n_s >= tau shortest, so
E[Y | exceeding] >= tau shortest / nbar. Hence

    high = high(body / positions) + CP_upper(exceeding, sequences) max(c, largest / nbar)
    rare = low(body / positions)  + CP_lower(exceeding, sequences) tau shortest / nbar,

where the upper side's error (1 - level) / 2 is split in halves between the two terms. Without any
exceeding sequence the second term of `high` is c (1 - ((1 - level) / 4)^(1 / sequences)), about
c ln(4 / (1 - level)) / sequences: what was never seen still costs that much, also where every
observed loss is exactly 0.

`rare` knows of an exceeding sequence only that it exceeds, which is little where most of them do
(an untrained model). Capping can only lower the mean, and where at least `MIN_EFFECTIVE_BLOCKS`
blocks carry the capped sum, large errors are no longer rare and its jackknife-t limit holds:

    low = max(rare, low(capped / positions)),

each of the two at half of the lower side's error, `rare` split in halves again between its terms.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from harness.judging.jackknife import MIN_EFFECTIVE_BLOCKS, Array
from harness.judging.quantiles import binomial_lower, binomial_upper
from prereg.errors import InputError, IntegrityError

_COLUMNS = {
    *("body", "tail", "capped", "positions"),
    *("sequences", "exceeding", "largest", "shortest"),
}


def tail_upper(columns: Mapping[str, Array], *, ceiling: float, error: float) -> Array:
    """Upper limit of P(exceeding) E[Y | exceeding], missed with chance <= `error`.

    Args:
        columns: as listed in this module.  # each [..., blocks]
        ceiling: c, granted to an exceeding sequence that was not seen, in nats a position.
        error: chance of missing it.
    """
    sequences, exceeding, length = _counts(columns)
    most = np.maximum(ceiling, columns["largest"].max(axis=-1) / length)
    return np.asarray(binomial_upper(exceeding, sequences, error=error) * most)


def tail_lower(columns: Mapping[str, Array], *, tau: float, error: float) -> Array:
    """Lower limit of P(exceeding) E[Y | exceeding], missed with chance <= `error`.

    Args:
        columns: as listed in this module.  # each [..., blocks]
        tau: mean loss above which a sequence exceeds, in nats.
        error: chance of missing it.
    """
    sequences, exceeding, length = _counts(columns)
    least = tau * columns["shortest"].min(axis=-1) / length
    return np.asarray(binomial_lower(exceeding, sequences, error=error) * least)


def check_columns(columns: Mapping[str, Array], *, samples: int, block: int, place: str) -> None:
    """Refuses columns that no sequences could have given.

    Args:
        columns: as listed in this module.  # each [blocks]
        samples: registered number of sequences.
        block: sequences in a block; the last may be shorter.
        place: the record, for the message.

    Raises:
        IntegrityError: a negative entry, another number of sequences than was registered, more
            exceeding ones than there are, or sums that do not fit one another.
    """
    if set(columns) != _COLUMNS:
        return  # said better where the value is recomputed
    count = np.minimum(block, samples - block * np.arange(len(columns["sequences"])))
    exceeding, tail = columns["exceeding"], columns["tail"]
    room = 1.0 + 1e-9  # sums of the same numbers in another order
    rules = {
        "entries that are not negative": all((c >= 0.0).all() for c in columns.values()),
        "the registered number of sequences in every block": (columns["sequences"] == count).all(),
        "at most as many exceeding sequences": (exceeding <= count).all(),
        "a tail exactly where sequences exceed": ((tail > 0.0) == (exceeding > 0.0)).all(),
        "a tail between its largest sum and their number times that": (
            (columns["largest"] <= tail * room) & (tail <= exceeding * columns["largest"] * room)
        ).all(),
        "a capped sum within body and tail": (
            (columns["body"] <= columns["capped"] * room)
            & (columns["capped"] <= (columns["body"] + tail) * room)
        ).all(),
        "a shortest sequence that fits": (
            columns["shortest"] * count <= columns["positions"] * room
        ).all(),
    }
    for rule, holds in rules.items():
        if not holds:
            raise IntegrityError(
                f"columns that no sequences could have given ({place})",
                expected=rule,
                fix="take the evidence file as the run wrote it, or run again",
                code="evidence.impossible",
            )


def large_errors_are_common(columns: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Whether enough blocks carry the capped sum for a jackknife of it.  # [...]"""
    capped = columns["capped"]
    size = np.maximum((capped**2).sum(axis=-1), np.finfo(np.float64).tiny)
    return np.asarray(capped.sum(axis=-1) ** 2 / size >= MIN_EFFECTIVE_BLOCKS)


def _counts(columns: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Sequences, exceeding sequences, and positions of a sequence on average."""
    sequences = columns["sequences"].sum(axis=-1)
    return sequences, columns["exceeding"].sum(axis=-1), columns["positions"].sum(-1) / sequences


def constants(parameters: Mapping[str, float]) -> tuple[float, float]:
    """tau and c of a registration.

    Raises:
        InputError: if one was not frozen, or is not positive.
    """
    tau, ceiling = parameters.get("tau", 0.0), parameters.get("c", 0.0)
    if tau <= 0.0 or ceiling <= 0.0:
        raise InputError(
            f"the parameters {dict(parameters)} of a `rare_mean` statistic",
            expected="positive `tau` and `c`, in nats",
            fix="freeze both in the plan, for example kl_tail: {tau: 0.1, c: 2.0}",
            code="judging.kl-tail",
        )
    return tau, ceiling
