"""Streamed reasoning: the content of each piece, and the native data at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from vibe_llms.dialects.chat_completions.calling.reasoning import is_text, note_plain_fields
from vibe_llms.dialects.chat_completions.tables import (
    DETAIL_FIELDS,
    REASONING_DETAILS,
    REASONING_FIELDS,
)
from vibe_llms.foundation.attrs_classes import define

Piece = tuple[int, str, str]
"""Index of the content, the text, and the channel."""


@define
class Thought:
    """One reasoning content.

    Attributes:
        index: Index of the content.
        native_fields: Its native data.
        texts: The pieces of its readable text so far.
    """

    index: int
    native_fields: dict[str, Any]
    texts: list[str] = attrs.field(factory=list)
    signature: str = ""


@define
class Thinking:
    """Finds the content of each piece of reasoning, wherever the vendor puts it.

    Attributes:
        thoughts: The contents so far, in order.
    """

    thoughts: list[Thought] = attrs.field(factory=list)
    _plain: dict[tuple[str, ...], Thought] = attrs.field(factory=dict)
    _details: list[Thought] = attrs.field(factory=list)
    _echoes: dict[str, list[str]] = attrs.field(factory=dict)
    """Texts of plain fields that came with details, by the name of the field."""
    _part: Thought | None = None
    _inner: list[Any] = attrs.field(factory=list)
    """The items of the current part of reasoning."""

    def read(self, message: Mapping[str, Any], index: int) -> list[Piece]:
        """Return the pieces in the fields of a message or delta.

        Args:
            index: The first free index for a content; each new one takes the next.
        """
        pieces: list[Piece] = []
        details = message.get(REASONING_DETAILS) or ()
        for detail in details:
            pieces += self._read_detail(detail, index)
            index = self._find_free_index(index)
        by_text: dict[str, list[str]] = {}
        for name in REASONING_FIELDS:
            text = message.get(name)
            if isinstance(text, str) and text:
                # Some vendors send one text in two fields: it becomes one content, which is
                # returned in both.
                by_text.setdefault(text, []).append(name)
        readable = "".join(text for _, text, channel in pieces if channel != "signature")
        for text, names in by_text.items():
            # Plain fields repeat the details; with both, the text would be there twice.
            if readable:
                for name in names:
                    self._echoes.setdefault(name, []).append(text)
            else:
                pieces.append((self._access_plain(names, index).index, text, "text"))
                index = self._find_free_index(index)
        return pieces

    def read_part(self, part: Mapping[str, Any], index: int, *, is_complete: bool) -> list[Piece]:
        """Return the pieces in a part of the content, which continues the part before it."""
        other_fields = {
            name: value for name, value in part.items() if name not in ("type", "thinking")
        }
        if self._part is None:
            self._inner = []
            self._part = self._add(index, {"part": {}})
        self._part.native_fields["part"].update(other_fields)
        pieces = []
        for item in part["thinking"]:
            if is_text(item):
                pieces.append((self._part.index, item["text"], "text"))
            if not is_text(item) or len(item) > 2:  # kept unchanged
                self._part.native_fields["part"]["thinking"] = self._inner
            self._inner.append(item)
        if is_complete and len(self._inner) != 1:
            self._part.native_fields["part"]["thinking"] = self._inner
        return pieces

    def end_part(self) -> None:
        """Let the next part of reasoning begin a new content."""
        self._part = None

    def open(self, thought: Thought) -> dict[str, Any]:
        """Return the native data of a content at its beginning.

        The native data include the names of plain fields that repeat the detail.
        """
        has_echoes = "detail" in thought.native_fields and bool(self._echoes)
        return thought.native_fields | ({"fields": list(self._echoes)} if has_echoes else {})

    def finish(self) -> Sequence[Thought]:
        """Return the contents, each with its native data."""
        if self._details:
            details_text = "".join("".join(thought.texts) for thought in self._details)
            echoes = {name: "".join(texts) for name, texts in self._echoes.items()}
            self._details[0].native_fields |= note_plain_fields(details_text, echoes)
        return self.thoughts

    def _read_detail(self, piece: Mapping[str, Any], index: int) -> list[Piece]:
        text_fields = DETAIL_FIELDS.get(str(piece.get("type")), ())
        names = {name for name, _ in text_fields}
        other_fields = {name: value for name, value in piece.items() if name not in names}
        not_texts = {
            name: piece[name]
            for name in names
            if name in piece and not isinstance(piece[name], str)
        }
        thought = self._access_detail(other_fields, index)
        native_fields = thought.native_fields["detail"]
        # Later pieces may have null for the first one's values.
        native_fields |= {
            name: value
            for name, value in other_fields.items()
            if value is not None or name not in native_fields
        }
        native_fields |= {
            name: value for name, value in not_texts.items() if name not in native_fields
        }
        pieces = []
        for name, channel in text_fields:
            text = piece.get(name)
            if not isinstance(text, str) or not text:
                if text == "" and not thought.texts and channel != "signature":
                    native_fields.setdefault(name, "")
                continue
            native_fields.pop(name, None)
            if channel == "signature":
                thought.signature += text
                text = thought.signature  # replaces the previous signature, so return all of it
            else:
                thought.texts.append(text)
            pieces.append((thought.index, text, channel))
        return pieces

    def _access_detail(self, other_fields: Mapping[str, Any], index: int) -> Thought:
        """Return the content of a detail, which continues the last of its type, index and id."""
        last = self._details[-1] if self._details else None
        if last is not None:
            before = last.native_fields["detail"]
            if all(before.get(name) == other_fields.get(name) for name in ("type", "index", "id")):
                return last
        thought = self._add(index, {"detail": {}})
        self._details.append(thought)
        return thought

    def _access_plain(self, names: Sequence[str], index: int) -> Thought:
        key = tuple(names)
        if key not in self._plain:
            self._plain[key] = self._add(index, {"fields": list(names)})
        return self._plain[key]

    def _add(self, index: int, native_fields: dict[str, Any]) -> Thought:
        self.thoughts.append(Thought(index, native_fields))
        return self.thoughts[-1]

    def _find_free_index(self, index: int) -> int:
        """Return the first index that reasoning does not use."""
        return max(index, self.thoughts[-1].index + 1) if self.thoughts else index
