"""What a response says beyond its contents, to be kept natively: candidates, ratings, versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from vibe_llms.dialects.generate_content.fields import camelize, without
from vibe_llms.dialects.generate_content.parts import read_residue


@attrs.define
class Leftovers:
    """Gathers it over the chunks of a stream: what comes later replaces what came before.

    Attributes:
        first: The fields of the first candidate but for its parts and why it ended.
        reason: Why it ended, or why there is none; ``None`` as long as it goes on.
        is_blocked: Whether there is no candidate because of what was asked.
    """

    first: dict[str, Any] = attrs.field(factory=dict)
    reason: str | None = None
    is_blocked: bool = False
    _others: dict[int, dict[str, Any]] = attrs.field(factory=dict, init=False)
    _response: dict[str, Any] = attrs.field(factory=dict, init=False)
    _said: set[str] = attrs.field(factory=set, init=False)

    @property
    def is_answer(self) -> bool:
        """Whether anything was said that belongs to an answer."""
        return bool(self._said & {"candidates", "promptFeedback", "usageMetadata"})

    def add_first(self, candidate: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        """Takes in the first candidate; keys in camel case."""
        self.reason = _ensure_word(candidate.get("finishReason")) or self.reason
        self._said |= {"candidate", *(f"content.{name}" for name in content)}
        self._said |= {name for name in candidate if name != "content" or content}
        self.first |= without(candidate, "content", "finishReason")
        rest = without(content, "parts")
        if rest.get("role") == "model":
            del rest["role"]
        if rest:
            self.first["content"] = rest

    def add_candidate(self, candidate: Mapping[str, Any], position: int) -> None:
        """Takes in one of the other candidates, whole; its plain texts join."""
        index = candidate.get("index", position)
        held = self._others.setdefault(index, {})
        content = camelize(candidate.get("content") or {})
        parts = held.get("content", {}).get("parts", [])
        for part in content.get("parts") or ():
            _join_part(parts, camelize(part))
        held |= without(candidate, "content")
        if content:
            held["content"] = {**content, "parts": parts}

    def add_response(self, chunk: Mapping[str, Any]) -> None:
        """Takes in what is around the candidates; keys in camel case."""
        self._said |= chunk.keys()
        self._response |= without(
            chunk, "candidates", "usageMetadata", "modelVersion", "responseId"
        )
        blocked = _ensure_word(camelize(chunk.get("promptFeedback") or {}).get("blockReason"))
        if blocked and self.reason is None and not chunk.get("candidates"):
            self.reason, self.is_blocked = blocked, True

    def produce(self) -> dict[str, Any]:
        """Returns the response without what has common words.

        ``None`` tells of what is always written and the vendor has never said.
        """
        native = dict(self._response)
        if "modelVersion" not in self._said:
            native["modelVersion"] = None
        if "candidate" not in self._said:
            return native if self.is_blocked else native | {"candidates": None}
        for name in ("role", "parts"):
            if f"content.{name}" not in self._said:
                self.first["content"] = {**self.first.get("content", {}), name: None}
        self.first |= {n: None for n in ("content", "finishReason") if n not in self._said}
        others = [self._others[index] for index in sorted(self._others)]
        if self.first or others:
            native["candidates"] = [self.first, *others]
        return native


def _join_part(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    last = parts[-1] if parts else {}
    plain = "text" in part and not read_residue(without(part, "thought"))
    if (
        plain
        and "text" in last
        and not read_residue(without(last, "thought"))
        and bool(last.get("thought")) is bool(part.get("thought"))
    ):
        last["text"] += part["text"]
    else:
        parts.append(part)


def _ensure_word(value: object) -> str | None:
    if not isinstance(value, str | None):
        raise TypeError("the reason for an end is no text")
    return value
