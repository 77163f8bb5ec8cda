"""A conversation of elsewhere while it is written down in our words."""

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
    """Returns the id of what a service calls so: the same each time that it is imported."""
    # Parted, so that "a", "bc" and "ab", "c" are not the same.
    text = "\0".join(words)
    # A key may hold half a character, and names something all the same.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return b32encode(digest[:10]).decode("ascii").lower()


def read_moment(given: object) -> datetime | None:
    """Reads seconds since 1970, or a date as ISO 8601 writes it; ``None`` where it is neither."""
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
    """Returns a text; nothing where it is none."""
    return given if isinstance(given, str) else ""


def read_list(given: object) -> list[Any]:
    """Returns a list; an empty one where it is none."""
    return given if isinstance(given, list) else []


def read_tables(given: object) -> list[dict[str, Any]]:
    """Returns the objects of a list."""
    return [item for item in read_list(given) if isinstance(item, dict)]


def read_table(given: object) -> dict[str, Any]:
    """Returns an object; an empty one where it is none."""
    return given if isinstance(given, dict) else {}


def write_json(given: object) -> str:
    """Writes what a service has parsed as a model could have written it."""
    return json.dumps(given, ensure_ascii=False, separators=(",", ":"))


def make_media(
    mime_type: str, *, data: bytes | None, name: str | None = None, url: str | None = None
) -> MediaContent:
    """Makes the kind of content that a type of media asks for."""
    return choose_media(mime_type)(mime_type=mime_type, data=data, name=name, url=url)


@define
class Draft:
    """What has been written down of a conversation so far, and what could not be.

    Attributes:
        source: The word for where it comes from, such as ``chatgpt``.
        key: What it is called there.
        place: Where it stands in the document.
        created: When it began, as far as is known.
        origin: Who speaks for the model, until that changes.
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
        """Takes down what could not be carried over."""
        self.losses.append(Loss(kind=kind, path=f"{self.place}{place}", reason=reason))

    def begin(self, key: str, moment: datetime | None) -> None:
        """Says which message comes now, and when it was said: with the one before where nobody
        knows."""
        self._message, self._pieces = key, 0
        self._moment = moment or self._moment

    def add_user(self, contents: Sequence[AnyContent]) -> None:
        """Adds what the user says; whatever the model says next is another turn."""
        if contents:
            self._turn = ""
            self.canisters.append(UserCanister(tuple(contents), **self._name()))

    def add_supervisor(self, contents: Sequence[AnyContent]) -> None:
        """Adds instructions."""
        if contents:
            self.canisters.append(SupervisorCanister(tuple(contents), **self._name()))

    def add_document(self, contents: Sequence[AnyContent], title: str | None) -> None:
        """Adds material that somebody gave."""
        if contents:
            self.canisters.append(DocumentCanister(tuple(contents), title=title, **self._name()))

    def add_answer(self, contents: Sequence[AnyContent]) -> None:
        """Adds what the model thinks and says."""
        if contents:
            self.canisters.append(AssistantCanister(tuple(contents), **self._name_turn()))

    def add_invocation(
        self, invocation_id: str, name: str, arguments: str, form: Any, owner: Owner
    ) -> None:
        """Adds a call."""
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
        """Adds what came of a call; what we execute ourselves belongs to no turn of a model's."""
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
        """Returns the conversation, with what was lost."""
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
