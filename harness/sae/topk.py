"""TopK reconstruction whose forward and backward pass read only the active rows.

The dense formulation is, for states x [n, d] and a dictionary of `width` features,

    pre = (x - b_dec) E' + b_enc            E [width, d], the transposed encoder
    S_i = the k features of token i with the largest pre * |W_dec row|
    z   = relu(pre) on S, else 0            [n, width], never formed
    x^  = z W_dec + b_dec                   W_dec [width, d]

Ranking by pre * |row| makes the selection that of the same dictionary with unit decoder rows
(row / |row|, its encoder and bias times |row|), so rows may be normalised afterwards without
changing any reconstruction. The norms act on the selection alone and have no gradient.

With g the gradient of x^ [n, d], p = (W_dec g_i) on S where pre > 0, and sums over the tokens i at
which feature j is active, the gradients are

    W_dec_j: sum_i z_ij g_i    E_j: sum_i p_ij (x_i - b_dec)    b_enc_j: sum_i p_ij
    b_dec:   sum_i g_i - E' (gradient of b_enc)

which takes n k d multiplications each instead of n width d.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag

_CHUNK_ELEMENTS = 1 << 20  # pre-activations held at once: they are selected from while in cache
_GROUP = 8  # features to a group in the two-stage selection
_WORTH_GROUPING = 32  # features for each selected one from which two stages are the faster way


class Active(NamedTuple):
    """The active features of each token: codes [n, k], at least 0, and their indices [n, k]."""

    codes: Tensor
    indices: Tensor


def select(scores: Tensor, k: int) -> Tensor:
    """Indices [n, k] of k largest entries of each row of `scores` [n, width], in no order.

    Wide rows are selected from in two stages: every one of the k largest entries lies in one of the
    k groups with the largest maxima (up to ties, which are broken arbitrarily in any case).
    """
    width = scores.shape[1]
    if width % _GROUP or width < _WORTH_GROUPING * k or k < 2 * _GROUP:
        return scores.topk(k, dim=1, sorted=False).indices
    groups = width // _GROUP  # a group holds every `groups`-th feature
    maxima = scores.view(len(scores), _GROUP, groups).amax(1)
    chosen = maxima.topk(k, dim=1, sorted=False).indices
    members = torch.arange(0, width, groups, device=scores.device)
    candidates = (chosen[:, None, :] + members[:, None]).flatten(1)
    best = scores.gather(1, candidates).topk(k, dim=1, sorted=False).indices
    return candidates.gather(1, best)


def activate(
    centred: Tensor, encoder: Tensor, b_enc: Tensor, *, row_norms: Tensor | None, k: int
) -> Active:
    """The active features of centred states [n, d]; `row_norms` None means unit rows."""
    rows = max(1, _CHUNK_ELEMENTS // len(encoder))
    found = []
    for chunk in torch.split(centred, rows):
        pre = torch.addmm(b_enc, chunk, encoder.T)
        indices = select(pre if row_norms is None else pre * row_norms, k)
        found.append(Active(pre.gather(1, indices).relu_(), indices))
    return Active(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def weighted_rows(active: Active, rows: Tensor) -> Tensor:
    """sum_j codes_ij rows[indices_ij], [n, d], for a table of rows [width, d]."""
    return embedding_bag(active.indices, rows, mode="sum", per_sample_weights=active.codes)


class _TopKReconstruction(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 - the signature is torch's
        ctx: Any, x: Tensor, encoder: Tensor, b_enc: Tensor, W_dec: Tensor, b_dec: Tensor, k: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        centred = x - b_dec
        active = activate(centred, encoder, b_enc, row_norms=W_dec.norm(dim=1), k=k)
        ctx.save_for_backward(centred, encoder, W_dec, *active)
        ctx.mark_non_differentiable(*active)
        return weighted_rows(active, W_dec) + b_dec, *active

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        centred, encoder, W_dec, codes, indices = ctx.saved_tensors
        with torch.enable_grad():  # torch's own product of g_i and W_dec_j at the active pairs
            leaf = codes.detach().requires_grad_()
            decoded = weighted_rows(Active(leaf, indices), W_dec.detach())
        (by_code,) = torch.autograd.grad(decoded, leaf, gradient)
        by_code = by_code * (codes > 0)
        order = torch.sort(indices.flatten(), stable=True)
        per_feature = torch.bincount(order.values, minlength=len(encoder))
        starts = per_feature.cumsum(0) - per_feature
        tokens = order.indices // indices.shape[1]

        def by_feature(weights: Tensor, table: Tensor) -> Tensor:
            sorted_weights = weights.flatten()[order.indices]
            return embedding_bag(
                tokens, table, starts, mode="sum", per_sample_weights=sorted_weights
            )

        by_encoder = by_feature(by_code, centred)
        by_W_dec = by_feature(codes, gradient)
        by_b_enc = by_feature(by_code, centred.new_ones(len(centred), 1)).flatten()
        by_b_dec = gradient.sum(0) - by_b_enc @ encoder
        return None, by_encoder, by_b_enc, by_W_dec, by_b_dec, None


def reconstruct(
    x: Tensor, *, encoder: Tensor, b_enc: Tensor, W_dec: Tensor, b_dec: Tensor, k: int
) -> tuple[Tensor, Active]:
    """The reconstruction x^ [n, d] of the module's docstring, and the active features.

    Differentiable once, in encoder [width, d], b_enc [width], W_dec [width, d] and b_dec [d]; x is
    data and gets no gradient, and the codes beside the reconstruction pass none on.
    """
    x_hat, codes, indices = _TopKReconstruction.apply(x, encoder, b_enc, W_dec, b_dec, k)  # type: ignore[no-untyped-call]
    return x_hat, Active(codes, indices)
