"""A note, and its form as a Markdown file whose front matter says where it comes from::

---
created: 2026-11-29T12:00:00Z
updated: 2026-11-29T12:00:00Z
remembered:
- conversation: 2ivtf0k3q1m0d8
  turn: 3
  time: 2026-11-29T12:00:00Z
---
Drinks green tea.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.front_matter import compose_front_matter, split_front_matter

ORIGINS: Final = 20
"""Maximum number of origins that a note keeps: the latest ones."""


@frozen(kw_only=True)
class NoteOrigin:
    """The conversation from which something was remembered.

    Attributes:
        conversation: Id of the conversation.
        turn: Number of the user's message that was being answered, from 1; ``None`` if unknown.
        time: The moment, in UTC.
    """

    conversation: str
    turn: int | None = None
    time: datetime


@frozen(kw_only=True)
class Note:
    """A note.

    Attributes:
        path: Path of the note in its book, such as ``tea.md`` or ``project/plan.md``.
        text: The text, without front matter.
        created: The moment at which it was written first; ``None`` if a person made the file.
        updated: The moment of the last change.
        origins: The conversations from which it was remembered, oldest first.
        others: Further fields of its front matter. Also ``created``, ``updated`` and
            ``remembered`` if a person wrote them in an unknown form.
    """

    path: str
    text: str
    created: datetime | None = None
    updated: datetime | None = None
    origins: tuple[NoteOrigin, ...] = ()
    others: Mapping[str, Any] = attrs.field(factory=dict)

    def change(self, text: str, now: datetime, origin: NoteOrigin | None) -> Note:
        """Return the note with another text.

        Args:
            origin: The conversation that changed it; ``None`` for a person.
        """
        origins = self.origins if origin is None else (*self.origins, origin)[-ORIGINS:]
        created = self.created or now
        return attrs.evolve(self, text=text, created=created, updated=now, origins=origins)


def read_note(path: str, document: str) -> Note:
    """Read a note from its file. Invalid front matter counts as text."""
    try:
        front = split_front_matter(document, path)
    except ConfigurationError:
        return Note(path=path, text=document)
    others = dict(front.fields)
    return Note(
        path=path,
        text=front.body,
        created=_take_moment(others, "created"),
        updated=_take_moment(others, "updated"),
        origins=_take_origins(others),
        others=others,
    )


def write_note(note: Note) -> str:
    """Return the file of a note."""
    origins = [
        {
            "conversation": each.conversation,
            **({} if each.turn is None else {"turn": str(each.turn)}),
            "time": _write_moment(each.time),
        }
        for each in note.origins
    ]
    fields: dict[str, Any] = {
        "created": _write_moment(note.created),
        "updated": _write_moment(note.updated),
        "remembered": origins,
        **note.others,
    }
    if origins and "remembered" in note.others:
        kept = note.others["remembered"]
        fields["remembered"] = [*(kept if isinstance(kept, list) else [kept]), *origins]
    written = {name: value for name, value in fields.items() if value or name in note.others}
    return compose_front_matter(written, note.text)


def _take_moment(fields: dict[str, Any], name: str) -> datetime | None:
    """Remove a moment from the fields, and return it; one in an unknown form stays there."""
    moment = _read_moment(fields.get(name))
    if moment is not None or not fields.get(name):
        fields.pop(name, None)
    return moment


def _take_origins(fields: dict[str, Any]) -> tuple[NoteOrigin, ...]:
    """Remove the origins from the fields, and return them; those in an unknown form stay there."""
    listed = fields.get("remembered")
    found = [(each, _read_origin(each)) for each in listed] if isinstance(listed, list) else []
    kept = [each for each, origin in found if origin is None] if found else listed
    if kept:
        fields["remembered"] = kept
    else:
        fields.pop("remembered", None)
    return tuple(origin for _, origin in found if origin is not None)


def _read_origin(table: object) -> NoteOrigin | None:
    if not isinstance(table, dict) or not isinstance(table.get("conversation"), str):
        return None
    moment, turn = _read_moment(table.get("time")), table.get("turn")
    number = int(turn) if isinstance(turn, str) and turn.isdecimal() else None
    if moment is None:
        return None
    return NoteOrigin(conversation=table["conversation"], turn=number, time=moment)


def _read_moment(written: object) -> datetime | None:
    if not isinstance(written, str):
        return None
    try:
        moment = datetime.fromisoformat(written)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _write_moment(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"
