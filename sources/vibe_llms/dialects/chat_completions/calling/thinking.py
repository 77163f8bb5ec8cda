"""Reasoning on its way: which content a piece belongs to, and what else is left at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from vibe_llms.dialects.chat_completions.calling.reasoning import compose_echo, is_text
from vibe_llms.dialects.chat_completions.tables import DETAILS, FIELDS, GROWING
from vibe_llms.foundation.attrs_classes import define

Piece = tuple[int, str, str]
"""Of which content, what, on which channel."""


@define
class Thought:
    """One content of reasoning.

    Attributes:
        index: Of the content.
        kept: What will be its native.
        told: What may be read of it so far.
    """

    index: int
    kept: dict[str, Any]
    told: list[str] = attrs.field(factory=list)
    signature: str = ""


@define
class Thinking:
    """Finds the content for each piece of reasoning, whichever way the vendor sends it.

    Attributes:
        thoughts: The contents so far, in order.
    """

    thoughts: list[Thought] = attrs.field(factory=list)
    _plain: dict[tuple[str, ...], Thought] = attrs.field(factory=dict)
    _details: list[Thought] = attrs.field(factory=list)
    _echoes: dict[str, list[str]] = attrs.field(factory=dict)
    _part: Thought | None = None
    _inner: list[Any] = attrs.field(factory=list)

    def read(self, message: Mapping[str, Any], index: int) -> list[Piece]:
        """Returns the pieces in the fields of a message or delta.

        Args:
            index: The first that is free for a content; a new thought takes one after another.
        """
        pieces: list[Piece] = []
        details = message.get(DETAILS) or ()
        for detail in details:
            pieces += self._read_detail(detail, index)
            index = self._skip(index)
        by_text: dict[str, list[str]] = {}
        for name in FIELDS:
            text = message.get(name)
            if isinstance(text, str) and text:
                # Some say the same under two names: it is one thought, which goes back under both.
                by_text.setdefault(text, []).append(name)
        readable = "".join(text for _, text, channel in pieces if channel != "signature")
        for text, names in by_text.items():
            # Beside details, plain fields say them once more: the thought would be there twice.
            if readable:
                for name in names:
                    self._echoes.setdefault(name, []).append(text)
            else:
                pieces.append((self._access_plain(names, index).index, text, "text"))
                index = self._skip(index)
        return pieces

    def read_part(self, part: Mapping[str, Any], index: int, *, whole: bool) -> list[Piece]:
        """Returns the pieces in a part of the content; it goes on with the part before it."""
        rest = {name: value for name, value in part.items() if name not in ("type", "thinking")}
        if self._part is None:
            self._inner = []
            self._part = self._add(index, {"part": {}})
        self._part.kept["part"].update(rest)
        pieces = []
        for item in part["thinking"]:
            if is_text(item):
                pieces.append((self._part.index, item["text"], "text"))
            if not is_text(item) or len(item) > 2:  # which stays as it is
                self._part.kept["part"]["thinking"] = self._inner
            self._inner.append(item)
        if whole and len(self._inner) != 1:
            self._part.kept["part"]["thinking"] = self._inner
        return pieces

    def end_part(self) -> None:
        """Says that the next part of reasoning does not go on with the last."""
        self._part = None

    def open(self, thought: Thought) -> dict[str, Any]:
        """Returns what there is of a content that begins, with where else it is said at once."""
        echoed = {"fields": list(self._echoes)} if "detail" in thought.kept and self._echoes else {}
        return thought.kept | echoed

    def finish(self) -> Sequence[Thought]:
        """Returns the contents, each with all that has no common word."""
        if self._details:
            told = "".join("".join(thought.told) for thought in self._details)
            echoes = {name: "".join(texts) for name, texts in self._echoes.items()}
            self._details[0].kept |= compose_echo(told, echoes)
        return self.thoughts

    def _read_detail(self, piece: Mapping[str, Any], index: int) -> list[Piece]:
        known = GROWING.get(str(piece.get("type")), ())
        names = {name for name, _ in known}
        rest = {name: value for name, value in piece.items() if name not in names}
        empty = {n: piece[n] for n in names if n in piece and not isinstance(piece[n], str)}
        thought = self._access_detail(rest, index)
        kept = thought.kept["detail"]
        # Later pieces may have null for what the first has said.
        kept |= {n: v for n, v in rest.items() if v is not None or n not in kept}
        kept |= {name: value for name, value in empty.items() if name not in kept}
        pieces = []
        for name, channel in known:
            text = piece.get(name)
            if not isinstance(text, str) or not text:
                if text == "" and not thought.told and channel != "signature":
                    kept.setdefault(name, "")
                continue
            kept.pop(name, None)
            if channel == "signature":
                thought.signature += text
                text = thought.signature  # each replaces the one before, so it is told whole
            else:
                thought.told.append(text)
            pieces.append((thought.index, text, channel))
        return pieces

    def _access_detail(self, rest: Mapping[str, Any], index: int) -> Thought:
        """Returns the thought of a detail: it goes on with the last of its type, index and id."""
        last = self._details[-1] if self._details else None
        if last is not None:
            before = last.kept["detail"]
            if all(before.get(name) == rest.get(name) for name in ("type", "index", "id")):
                return last
        thought = self._add(index, {"detail": {}})
        self._details.append(thought)
        return thought

    def _access_plain(self, names: Sequence[str], index: int) -> Thought:
        key = tuple(names)
        if key not in self._plain:
            self._plain[key] = self._add(index, {"fields": list(names)})
        return self._plain[key]

    def _add(self, index: int, kept: dict[str, Any]) -> Thought:
        self.thoughts.append(Thought(index, kept))
        return self.thoughts[-1]

    def _skip(self, index: int) -> int:
        """Returns the index after those which thoughts have taken."""
        return max([index, *(thought.index + 1 for thought in self.thoughts[-1:])])
