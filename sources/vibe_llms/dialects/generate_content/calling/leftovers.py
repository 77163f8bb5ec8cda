"""Native data of a response outside its contents: candidates, ratings, versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from vibe_llms.dialects.extras import collect_extras, without
from vibe_llms.dialects.generate_content.calling.parts import read_extras
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.foundation.attrs_classes import define

_ANSWER_FIELDS: Final = frozenset({"candidates", "promptFeedback", "usageMetadata"})
"""Fields of which an answer has at least one."""


@define
class Leftovers:
    """Native data, collected over the chunks of a stream; later values replace earlier ones.

    Attributes:
        first: The fields of the first candidate except its parts and finish reason.
        reason: The finish or block reason; ``None`` before the end.
        is_blocked: Whether the prompt was blocked, so that there is no candidate.
        is_answer: Whether any field of an answer was received.
    """

    first: dict[str, Any] = attrs.field(factory=dict)
    reason: str | None = None
    is_blocked: bool = False
    is_answer: bool = False
    _other_candidates: dict[int, dict[str, Any]] = attrs.field(factory=dict, init=False)
    _response: dict[str, Any] = attrs.field(factory=dict, init=False)

    def add_first(self, candidate: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        """Add the first candidate; keys in camel case."""
        self.reason = _ensure_text(candidate.get("finishReason")) or self.reason
        self.first |= collect_extras(candidate, ("content", "finishReason"))
        if extras := collect_extras(content, ("parts", "role")):
            self.first["content"] = extras

    def add_candidate(self, candidate: Mapping[str, Any], position: int) -> None:
        """Add a complete candidate after the first one; its plain texts are joined."""
        index = candidate.get("index", position)
        other = self._other_candidates.setdefault(index, {})
        content = camelize(candidate.get("content") or {})
        parts = other.get("content", {}).get("parts", [])
        for part in content.get("parts") or ():
            _join_part(parts, camelize(part))
        other |= without(candidate, "content")
        if content:
            other["content"] = {**content, "parts": parts}

    def add_response(self, chunk: Mapping[str, Any]) -> None:
        """Add the fields around the candidates; keys in camel case."""
        if not _ANSWER_FIELDS.isdisjoint(chunk):
            self.is_answer = True
        self._response |= collect_extras(
            chunk, ("candidates", "usageMetadata", "modelVersion", "responseId")
        )
        blocked = _ensure_text(camelize(chunk.get("promptFeedback") or {}).get("blockReason"))
        if blocked and self.reason is None and not chunk.get("candidates"):
            self.reason, self.is_blocked = blocked, True

    def produce(self) -> dict[str, Any]:
        """Return the response without its common fields."""
        candidates = [
            self.first,
            *(self._other_candidates[index] for index in sorted(self._other_candidates)),
        ]
        return self._response | ({"candidates": candidates} if any(candidates) else {})


def _join_part(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    last = parts[-1] if parts else {}
    are_plain = all(
        "text" in each and not read_extras(without(each, "thought")) for each in (last, part)
    )
    is_last_thought, is_thought = bool(last.get("thought")), bool(part.get("thought"))
    if are_plain and is_last_thought == is_thought:
        last["text"] += part["text"]
    else:
        parts.append(part)


def _ensure_text(value: object) -> str | None:
    if not isinstance(value, str | None):
        raise TypeError("the finish reason is not a text")
    return value
