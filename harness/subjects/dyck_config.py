"""Shape of a Dyck transformer (no torch)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prereg.record import Record


class DyckConfig(Record):
    """`config.json` of a Dyck transformer; the defaults are the shipped 104,448-parameter model."""

    architecture: Literal["dyck"] = Field("dyck", description="Name of the family.")
    n_layers: int = Field(2, ge=1, le=64, description="Number of blocks.")
    d_model: int = Field(64, ge=8, le=4096, description="Width of the residual stream.")
    n_heads: int = Field(4, ge=1, le=64, description="Attention heads a block.")
    d_head: int = Field(16, ge=1, le=512, description="Width of one attention head.")
    d_mlp: int = Field(256, ge=1, le=16384, description="Hidden ReLU neurons a block.")
    n_positions: int = Field(64, ge=64, le=4096, description="Longest sequence.")
    vocabulary: int = Field(40, ge=9, le=4096, description="Number of token ids.")
    heads: dict[str, int] = Field(
        {"copy": 40, "depth": 9, "valid": 2}, description="Output heads and their class counts."
    )
    norm_eps: float = Field(1e-5, gt=0, description="Added to the mean square in every RMSNorm.")
