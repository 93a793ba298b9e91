"""The two-layer Dyck-3 transformer as a torch module with named sites and components."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.subjects.dyck_config import DyckConfig
from harness.subjects.tap import Tap

Step = Callable[[Tensor, Tap | None], Tensor]
"""One residual state to the next, [b, t, d]; the tap sees what lies in between."""


def position_code(config: DyckConfig) -> Tensor:
    """The fixed position code, [positions, d_model]: zero but for coordinates 0..5.

    Coordinates at position t: t/T, 1/(t+1), log(t+1)/log T, [t = 0], cos and sin of 2 pi t/T,
    with T the number of positions.
    """
    t = torch.arange(config.n_positions, dtype=torch.float64)
    longest = float(config.n_positions)
    angle = 2 * math.pi * t / longest
    code = torch.zeros(config.n_positions, config.d_model, dtype=torch.float64)
    code[:, 0] = t / longest
    code[:, 1] = 1 / (t + 1)
    code[:, 2] = torch.log(t + 1) / math.log(longest)
    code[:, 3] = (t == 0).double()
    code[:, 4], code[:, 5] = torch.cos(angle), torch.sin(angle)
    return code.float()


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * gain, over the last axis, in the dtype of x."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.gain


class Attention(nn.Module):
    """Causal attention without biases; padding stands at the end, so causality masks it."""

    def __init__(self, config: DyckConfig) -> None:
        super().__init__()
        heads, width, d_head = config.n_heads, config.d_model, config.d_head
        self.W_Q = nn.Parameter(torch.empty(heads, width, d_head))
        self.W_K = nn.Parameter(torch.empty(heads, width, d_head))
        self.W_V = nn.Parameter(torch.empty(heads, width, d_head))
        self.W_O = nn.Parameter(torch.empty(heads, d_head, width))

    def forward(self, x: Tensor, *, block: int, tap: Tap | None) -> Tensor:
        batch, time, width = x.shape
        heads, _, d_head = self.W_Q.shape
        stacked = torch.stack((self.W_Q, self.W_K, self.W_V))  # [3, head, d, d_head]
        flat = stacked.permute(2, 0, 1, 3).reshape(width, 3 * heads * d_head)
        q, k, v = (x @ flat).view(batch, time, 3, heads, d_head).permute(2, 0, 3, 1, 4)
        z = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=d_head**-0.5)
        z = z.transpose(1, 2)  # [b, t, head, d_head]
        z = _tapped(tap, f"blocks.{block}.attn.hook_z", z)
        out = z.reshape(batch, time, heads * d_head) @ self.W_O.reshape(-1, width)
        return out if tap is None else self._edit_heads(out, z=z, block=block, tap=tap)

    def _edit_heads(self, out: Tensor, *, z: Tensor, block: int, tap: Tap) -> Tensor:
        """`out` with each tapped head's share replaced; untouched heads leave it bit for bit."""
        for head in range(len(self.W_O)):
            name = f"blocks.{block}.attn.head.{head}"
            if tap.wants(name):
                share = z[:, :, head] @ self.W_O[head]
                out = out + (tap(name, share) - share)
        return out


class MLP(nn.Module):
    """ReLU(x W_in) W_out without biases."""

    def __init__(self, config: DyckConfig) -> None:
        super().__init__()
        self.W_in = nn.Parameter(torch.empty(config.d_model, config.d_mlp))
        self.W_out = nn.Parameter(torch.empty(config.d_mlp, config.d_model))

    def forward(self, x: Tensor, *, block: int, tap: Tap | None) -> Tensor:
        post = _tapped(tap, f"blocks.{block}.mlp.hook_post", functional.relu(x @ self.W_in))
        return _tapped(tap, f"blocks.{block}.mlp", post @ self.W_out)


class Block(nn.Module):
    """Attention and MLP, each behind an RMSNorm and added to the residual stream."""

    def __init__(self, config: DyckConfig, index: int) -> None:
        super().__init__()
        self.index = index
        self.norm_attn = RMSNorm(config.d_model, config.norm_eps)
        self.attn = Attention(config)
        self.norm_mlp = RMSNorm(config.d_model, config.norm_eps)
        self.mlp = MLP(config)

    def attend(self, x: Tensor, tap: Tap | None) -> Tensor:
        """The stream after attention: from `hook_resid_pre` to `hook_resid_mid`."""
        out: Tensor = self.attn(self.norm_attn(x), block=self.index, tap=tap)
        return x + _tapped(tap, f"blocks.{self.index}.hook_attn_out", out)

    def transform(self, x: Tensor, tap: Tap | None) -> Tensor:
        """The stream after the MLP: from `hook_resid_mid` to `hook_resid_post`."""
        out: Tensor = self.mlp(self.norm_mlp(x), block=self.index, tap=tap)
        return x + _tapped(tap, f"blocks.{self.index}.hook_mlp_out", out)


class Readout(nn.Module):
    """One output head: x W without bias."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, classes))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


class DyckTransformer(nn.Module):
    """Token ids [b, t] to `{head: logits [b, t, classes]}`.

    The position code is a buffer, not a constant of the code: a change of basis of the residual
    stream moves it like every other tensor that writes there.
    """

    position_code: Tensor

    def __init__(self, config: DyckConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Parameter(torch.empty(config.vocabulary, config.d_model))
        self.register_buffer("position_code", position_code(config))
        self.blocks = nn.ModuleList(Block(config, index) for index in range(config.n_layers))
        self.norm_final = RMSNorm(config.d_model, config.norm_eps)
        self.unembed = nn.ModuleDict(
            {head: Readout(config.d_model, size) for head, size in config.heads.items()}
        )

    def forward(self, ids: Tensor, tap: Tap | None = None) -> Mapping[str, Tensor]:
        """Logits; with a tap, every site and component passes through it in order of flow."""
        return self.resume("hook_embed", self.embed[ids], tap)

    def resume(self, site: str, states: Tensor, tap: Tap | None = None) -> Mapping[str, Tensor]:
        """Logits of the pass that goes on from `states`, [b, t, d], at a residual site.

        The tap sees `site` first, and nothing that lies before it.
        """
        flow = self.flow
        x = _tapped(tap, site, states)
        for name, step in flow[[name for name, _ in flow].index(site) + 1 :]:
            x = _tapped(tap, name, step(x, tap))
        x = self.norm_final(x)
        return {head: readout(x) for head, readout in self.unembed.items()}

    @property
    def flow(self) -> list[tuple[str, Step]]:
        """Every site of the residual stream, with the step that leads there from the one before."""
        flow: list[tuple[str, Step]] = [("hook_embed", _stay)]
        for block in cast(Iterable[Block], self.blocks):
            name = f"blocks.{block.index}"
            flow += [
                (f"{name}.hook_resid_pre", _stay if block.index else self._place),
                (f"{name}.hook_resid_mid", block.attend),
                (f"{name}.hook_resid_post", block.transform),
            ]
        return flow

    def _place(self, x: Tensor, _: Tap | None) -> Tensor:
        """The embedded tokens with the position code."""
        return x + self.position_code[: x.shape[1]]


def _stay(x: Tensor, _: Tap | None) -> Tensor:
    """The step between two names of one state."""
    return x


def _tapped(tap: Tap | None, name: str, x: Tensor) -> Tensor:
    """The tensor that flows on at `name`."""
    return x if tap is None else tap(name, x)


def initialise(model: DyckTransformer, *, generator: torch.Generator, std: float = 0.02) -> None:
    """Draws every weight from N(0, std^2) in order of name; gains become 1.

    Order of name makes the draw independent of the order in which modules are declared.
    """
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if name.endswith("gain"):
                parameter.fill_(1.0)
            else:
                parameter.normal_(0.0, std, generator=generator)
