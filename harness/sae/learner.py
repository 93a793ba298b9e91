"""One dictionary while it is trained: its parameters, its loss and what it becomes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harness.sae import topk
from harness.sae.activations import Normalisation
from harness.sae.dictionary import Dictionary
from harness.sae.recipe import DictionaryRecipe
from harness.streams import torch_seed
from prereg.errors import InputError


class Learner(nn.Module):
    """A dictionary's parameters, on scaled states x'.

    The encoder is held transposed, so that an active feature is one contiguous row of it. Decoder
    rows are free while training; selection and penalty use pre-activations times row norms, so at
    every step it is the function of the dictionary with unit rows that `dictionary` turns it into.

    Args:
        recipe: what to train.
        normalisation: mean and scale of the states.
        site: labels the stream of the initial weights, beside the recipe's seed.
    """

    def __init__(
        self, recipe: DictionaryRecipe, normalisation: Normalisation, *, site: str
    ) -> None:
        super().__init__()
        self.recipe, self.scale = recipe, normalisation.scale
        start = torch.Generator().manual_seed(torch_seed(recipe.seed, "dictionary", site))
        rows = torch.randn(recipe.width, len(normalisation.mean), generator=start)
        rows *= recipe.decoder_norm / rows.norm(dim=1, keepdim=True)
        self.encoder = nn.Parameter(rows.clone())  # [width, d]
        self.b_enc = nn.Parameter(torch.zeros(recipe.width))
        self.W_dec = nn.Parameter(rows)
        self.b_dec = nn.Parameter((normalisation.mean * normalisation.scale).float())

    def loss(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The recipe's loss on x' [tokens, d], and how often each feature was active, [width]."""
        if self.recipe.k is not None:
            x_hat, active = topk.reconstruct(
                x,
                encoder=self.encoder,
                b_enc=self.b_enc,
                W_dec=self.W_dec,
                b_dec=self.b_dec,
                k=self.recipe.k,
            )
            firings = torch.bincount(active.indices[active.codes > 0], minlength=self.recipe.width)
            return _squared_error(x_hat, x), firings
        codes = torch.relu((x - self.b_dec) @ self.encoder.T + self.b_enc)
        penalty = (codes @ self.W_dec.norm(dim=1)).mean()
        loss = _squared_error(codes @ self.W_dec + self.b_dec, x) + (self.recipe.l1 or 0) * penalty
        return loss, (codes > 0).sum(0)

    def dictionary(self) -> Dictionary:
        """The dictionary so far, with unit decoder rows.

        Raises:
            InputError: training has diverged.
        """
        norms = self.W_dec.detach().norm(dim=1)
        if not bool((norms.isfinite() & (norms > 0)).all()):
            raise InputError(
                "decoder rows that are zero or not finite after training",
                expected="a dictionary whose training converged",
                fix=f"lower `optimiser.lr`, {self.recipe.optimiser.lr} in the recipe",
                code="dictionary.diverged",
            )
        return Dictionary(
            W_enc=(self.encoder.detach() * norms[:, None]).T.contiguous(),
            b_enc=self.b_enc.detach() * norms,
            W_dec=self.W_dec.detach() / norms[:, None],
            b_dec=self.b_dec.detach().clone(),
            kind=self.recipe.kind,
            k=self.recipe.k,
            scale=self.scale,
        )


def _squared_error(x_hat: Tensor, x: Tensor) -> Tensor:
    """Mean over tokens of |x^ - x|^2."""
    return torch.nn.functional.mse_loss(x_hat, x, reduction="sum") / len(x)
