"""Base of every record that is frozen, written or judged."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """No unknown keys, no coercion between types, no NaN or infinity, no mutation."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True
    )
