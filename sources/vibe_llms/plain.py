"""Plain data: what JSON and TOML can say, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = (
        None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
    )
else:
    JsonValue = Any  # whoever evaluates annotations at run time would never come to an end
JsonObject: TypeAlias = Mapping[str, JsonValue]
