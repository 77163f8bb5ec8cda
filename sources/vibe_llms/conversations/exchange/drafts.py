"""Draft of a foreign conversation during its import."""

from __future__ import annotations

import hashlib
import json
import math
from base64 import b32encode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AnyContent,
    MediaContent,
    choose_media,
)
from vibe_llms.messages.losses import Loss, LossKind, Translation

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation

BEGINNING_OF_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def derive_identity(*words: str) -> str:
    """Return the id for a service's key: the same at each import."""
    # Use a separator, so that "a", "bc" and "ab", "c" are different.
    text = "\0".join(words)
    # A key may contain a lone surrogate and is still valid.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return b32encode(digest[:10]).decode("ascii").lower()


def read_moment(given: object) -> datetime | None:
    """Read seconds since 1970 or an ISO 8601 date; ``None`` if it is neither."""
    try:
        if isinstance(given, str):
            moment = datetime.fromisoformat(given)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given):
            return datetime.fromtimestamp(given, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def read_text(given: object) -> str:
    """Return a text; empty if the value is not a text."""
    return given if isinstance(given, str) else ""


def read_list(given: object) -> list[Any]:
    """Return a list; empty if the value is not a list."""
    return given if isinstance(given, list) else []


def read_tables(given: object) -> list[dict[str, Any]]:
    """Return the objects of a list."""
    return [item for item in read_list(given) if isinstance(item, dict)]


def read_table(given: object) -> dict[str, Any]:
    """Return an object; empty if the value is not an object."""
    return given if isinstance(given, dict) else {}


def write_json(given: object) -> str:
    """Encode a parsed JSON value as a model could have written it."""
    return json.dumps(given, ensure_ascii=False, separators=(",", ":"))


def make_media(
    mime_type: str, *, data: bytes | None, name: str | None = None, url: str | None = None
) -> MediaContent:
    """Create the kind of content that fits a media type."""
    return choose_media(mime_type)(mime_type=mime_type, data=data, name=name, url=url)


@define
class Draft:
    """Imported part of a conversation so far, with its losses.

    Attributes:
        source: Name of its source, such as ``chatgpt``.
        key: Its key at the source.
        place: Its place in the document.
        created: Time of its creation, if known.
        origin: Origin of the model's current answers.
    """

    source: str
    key: str
    place: str
    created: datetime | None = None
    origin: Origin | None = None
    canisters: list[AnyCanister] = attrs.field(factory=list)
    losses: list[Loss] = attrs.field(factory=list)
    _message: str = ""
    _pieces: int = 0
    _turn: str = ""
    _moment: datetime | None = None

    def lose(self, place: str, reason: str, kind: LossKind = LossKind.DROPPED) -> None:
        """Record a loss."""
        self.losses.append(Loss(kind=kind, path=f"{self.place}{place}", reason=reason))

    def begin(self, key: str, moment: datetime | None) -> None:
        """Begin a message, with its time; by default the time of the one before."""
        self._message, self._pieces = key, 0
        self._moment = moment or self._moment

    def add_user(self, contents: Sequence[AnyContent]) -> None:
        """Add a user message; the model's next answer begins a new turn."""
        if contents:
            self._turn = ""
            self.canisters.append(UserCanister(tuple(contents), **self._name()))

    def add_supervisor(self, contents: Sequence[AnyContent]) -> None:
        """Add instructions."""
        if contents:
            self.canisters.append(SupervisorCanister(tuple(contents), **self._name()))

    def add_document(self, contents: Sequence[AnyContent], title: str | None) -> None:
        """Add a document."""
        if contents:
            self.canisters.append(DocumentCanister(tuple(contents), title=title, **self._name()))

    def add_answer(self, contents: Sequence[AnyContent]) -> None:
        """Add reasoning and text of the model."""
        if contents:
            self.canisters.append(AssistantCanister(tuple(contents), **self._name_turn()))

    def add_invocation(
        self, invocation_id: str, name: str, arguments: str, form: Any, owner: Owner
    ) -> None:
        """Add a call."""
        self.canisters.append(
            InvocationCanister(
                invocation_id=invocation_id,
                name=name,
                arguments=arguments,
                form=form,
                owner=owner,
                **self._name_turn(),
            )
        )

    def add_result(
        self,
        invocation_id: str,
        name: str | None,
        contents: Sequence[AnyContent],
        *,
        is_error: bool = False,
        owner: Owner,
    ) -> None:
        """Add the result of a call; a call that we execute does not belong to a turn of a model."""
        named = self._name_turn() if owner is Owner.VENDOR else self._name()
        self.canisters.append(
            ResultCanister(
                tuple(contents),
                invocation_id=invocation_id,
                name=name,
                is_error=is_error,
                owner=owner,
                **named,
            )
        )
        if owner is Owner.OURS:
            self._turn = ""

    def finish(self, name: str | None, losses: Sequence[Loss] = ()) -> Translation[Conversation]:
        """Return the conversation, with its losses."""
        from vibe_llms.conversations.conversation import Conversation

        first = self.canisters[0].timestamp if self.canisters else BEGINNING_OF_TIME
        conversation = Conversation(
            id=derive_identity(self.source, self.key),
            metadata=ConversationMetadata(name=name or None, created=self.created or first),
            canisters=self.canisters,
        )
        return Translation(conversation, (*self.losses, *losses))

    def _name(self) -> dict[str, Any]:
        self._pieces += 1
        words = (self.source, self.key, self._message, str(self._pieces))
        moment = self._moment or self.created or BEGINNING_OF_TIME
        return {"id": derive_identity(*words), "timestamp": moment}

    def _name_turn(self) -> dict[str, Any]:
        named = self._name()
        self._turn = self._turn or str(named["id"])
        return {**named, "origin": self.origin, "turn_id": self._turn}
