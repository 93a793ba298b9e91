"""A sparse dictionary: states as sums of a few of many fixed directions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from harness.sae import topk
from harness.statistics.explained_variance import explained_variance
from prereg.errors import InputError

Kind = Literal["topk", "relu"]


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Encodes states as sparse codes, and decodes codes as states.

        x'    = scale x
        codes = act((x' - b_dec) W_enc + b_enc)
        x^    = (codes W_dec + b_dec) / scale

    `act` of kind `relu` is the ReLU; of kind `topk` it keeps the k largest pre-activations of a
    token and sets them to zero too where they are negative, so a token never has more than k active
    features (of tied ones, some are dropped). The decoder's bias is always subtracted from the
    input. It computes in the dtype of its weights; `to` changes that.

    Attributes:
        W_enc: encoder, [d, width].
        b_enc: bias of the pre-activations, [width].
        W_dec: decoder, one feature a row, [width, d].
        b_dec: centre, in units of x', [d].
        kind: activation function.
        k: largest number of active features of a token; None unless the kind is `topk`.
        scale: factor that brings states into the units of training.

    Raises:
        InputError: shapes that do not fit, tensors that are not finite, or a k that does not belong
            to the kind.
    """

    W_enc: Tensor
    b_enc: Tensor
    W_dec: Tensor
    b_dec: Tensor
    kind: Kind
    k: int | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        self._check_shapes()
        self._check_activation()
        finite = all(bool(t.isfinite().all()) for t in self._tensors)
        if not finite or not math.isfinite(self.scale) or not self.scale > 0:
            raise InputError(
                f"a dictionary with weights that are not finite, or the scale {self.scale}",
                expected="finite weights and a finite scale above 0",
                fix="train it at a lower learning rate, or repair the file it came from",
                code="dictionary.not-finite",
            )

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.W_dec)

    def to(self, like: Tensor) -> Dictionary:
        """The same dictionary in the dtype and on the device of a tensor."""
        W_enc, b_enc, W_dec, b_dec = (tensor.to(like) for tensor in self._tensors)
        return replace(self, W_enc=W_enc, b_enc=b_enc, W_dec=W_dec, b_dec=b_dec)

    def encode(self, x: Tensor) -> Tensor:
        """Codes [..., width] of states [..., d]."""
        if self.k is None:
            return torch.relu(self._centred(x) @ self.W_enc + self.b_enc)
        active = self._active(x)
        codes = active.codes.new_zeros(len(active.codes), self.width)
        return codes.scatter_(1, active.indices, active.codes).view(*x.shape[:-1], self.width)

    def decode(self, codes: Tensor) -> Tensor:
        """States [..., d] of codes [..., width]."""
        return (codes @ self.W_dec + self.b_dec) / self.scale

    def reconstruct(self, x: Tensor) -> Tensor:
        """decode(encode(x)) up to rounding, [..., d]; of TopK codes only the active are formed."""
        if self.k is None:
            return self.decode(self.encode(x))
        decoded = topk.weighted_rows(self._active(x), self.W_dec)
        return ((decoded + self.b_dec) / self.scale).view(x.shape)

    def l0(self, x: Tensor) -> float:
        """Mean number of active features of a token of x [..., d]."""
        return float((self.encode(x) > 0).sum(-1).double().mean())

    def live_fraction(self, x: Tensor) -> float:
        """Share of the features that are active on at least one token of x [..., d]."""
        return float((self.encode(x) > 0).view(-1, self.width).any(0).double().mean())

    def explained_variance(self, x: Tensor) -> float:
        """EV of the reconstruction against x [tokens, d], pooled over tokens and dimensions.

        Raises:
            UndefinedError: x does not vary.
        """
        return explained_variance(self.reconstruct(x).cpu().numpy(), x.cpu().numpy())

    @property
    def _tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.W_enc, self.b_enc, self.W_dec, self.b_dec

    def _centred(self, x: Tensor) -> Tensor:
        return x * self.scale - self.b_dec

    def _active(self, x: Tensor) -> topk.Active:
        centred = self._centred(x).reshape(-1, x.shape[-1])
        k = self.width if self.k is None else self.k
        return topk.activate(centred, self.W_enc.T, self.b_enc, row_norms=None, k=k)

    def _check_shapes(self) -> None:
        found = tuple(tuple(tensor.shape) for tensor in self._tensors)
        width, d = found[2] if len(found[2]) == 2 else (-1, -1)
        if found != ((d, width), (width,), (width, d), (d,)):
            raise InputError(
                f"a dictionary with tensors of shapes {', '.join(map(str, found))}",
                expected="W_enc [d, width], b_enc [width], W_dec [width, d], b_dec [d]",
                fix="check which of the two matrices has been transposed",
                code="dictionary.shapes",
            )

    def _check_activation(self) -> None:
        if self.kind not in ("topk", "relu"):
            raise InputError(
                f"a dictionary of kind {self.kind!r}",
                expected="topk or relu",
                fix="state the activation function that it was trained with",
                code="dictionary.kind",
            )
        fits = self.k is None if self.kind == "relu" else 1 <= (self.k or 0) <= self.width
        if not fits:
            raise InputError(
                f"a {self.kind} dictionary of width {self.width} with k = {self.k}",
                expected="1 <= k <= width for topk, no k for relu",
                fix="state the kind and the k that it was trained with",
                code="dictionary.k",
            )
