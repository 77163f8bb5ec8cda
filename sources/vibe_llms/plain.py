"""Plain data: what JSON and TOML can say, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

JsonValue: TypeAlias = (
    "None | bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue]"
)
JsonObject: TypeAlias = Mapping[str, JsonValue]
