"""The server's data about its models, with the keys of an attribute file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.models.genera import Genus
from vibe_llms.providers.surveys import CapabilityWord, SurveyedModel
from vibe_llms.tables.kinds import COUNT

_CAPABILITIES: Final = {
    "audio": "supports_audio",
    "thinking": "supports_reasoning",
    "tools": "supports_invocations",
    "vision": "supports_images",
}
"""Our names of capabilities, by the server's.

If the server lists capabilities, the model lacks all others.
"""


def learn(answer: JsonValue) -> JsonObject:
    """Convert the answer of ``POST /api/show`` about a model; always add ``num_ctx``."""
    description: Mapping[str, Any] = answer if isinstance(answer, Mapping) else {}
    window = _find_window(description.get("model_info"))
    control: dict[str, JsonValue] = {"kind": "interval", "minimum": 1, "grade": 1}
    facts: dict[str, JsonValue] = {"controls": {"num_ctx": control}}
    if window is not None:
        control["maximum"] = window
        facts["context_window_tokens"] = window
    capabilities = description.get("capabilities")
    if isinstance(capabilities, list) and "embedding" in capabilities:
        facts["genus"] = Genus.EMBEDDER.value
    return {**facts, **_read_capabilities(capabilities)}


def read_tags(answer: JsonValue) -> list[SurveyedModel]:
    """Return the models in the answer of ``GET /api/tags``."""
    entries = answer.get("models") if isinstance(answer, Mapping) else None
    return [
        SurveyedModel(
            name=str(entry.get("model") or entry["name"]),
            capabilities=_read_capabilities(entry.get("capabilities")),
        )
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, Mapping) and (entry.get("model") or entry.get("name"))
    ]


def _find_window(info: object) -> int | None:
    """Return the context length, whose key begins with the model's architecture."""
    if not isinstance(info, Mapping):
        return None
    architecture = info.get("general.architecture", "")
    window = info.get(f"{architecture}.context_length")
    return window if COUNT.is_valid(window) else None


def _read_capabilities(words: object) -> dict[str, CapabilityWord]:
    if not isinstance(words, Sequence) or isinstance(words, str):
        return {}
    return {name: "yes" if word in words else "no" for word, name in _CAPABILITIES.items()}
