"""Draft of an imported conversation, and the reading of values in exported files."""

from __future__ import annotations

import hashlib
import json
import math
from base64 import b32encode, b64decode
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
    Native,
    choose_media,
)
from vibe_llms.messages.losses import Loss, LossKind, Translation

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation

UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def derive_identity(*parts: str) -> str:
    """Derive an id from a service's key, so that each import gives the same id."""
    # Use a separator, so that "a", "bc" and "ab", "c" are different.
    text = "\0".join(parts)
    # A key may contain a lone surrogate and is still valid.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return b32encode(digest[:10]).decode("ascii").lower()


def read_moment(value: object) -> datetime | None:
    """Read seconds since 1970 or an ISO 8601 date; ``None`` if it is neither."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def read_text(value: object) -> str:
    """Return a text; empty if the value is not a text."""
    return value if isinstance(value, str) else ""


def read_list(value: object) -> list[Any]:
    """Return a list; empty if the value is not a list."""
    return value if isinstance(value, list) else []


def read_tables(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list."""
    return [item for item in read_list(value) if isinstance(item, dict)]


def read_table(value: object) -> dict[str, Any]:
    """Return an object; empty if the value is not an object."""
    return value if isinstance(value, dict) else {}


def write_json(value: object) -> str:
    """Encode a parsed JSON value as a model could have written it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_count(value: object) -> int | None:
    """Return a number of tokens; ``None`` if the value is not an integer from 0 to 2^63 - 1."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return value if is_integer and 0 <= value < 2**63 else None  # type: ignore[operator,return-value]


def make_native(protocol: str, value: object) -> Native:
    """Keep a parsed JSON object of a vendor unchanged."""
    return Native(protocol=protocol, data=write_json(value))


def decode_base64(text: object) -> bytes | None:
    """Decode base64; ``None`` if the value is invalid."""
    try:
        return b64decode(read_text(text), validate=True) or None
    except ValueError:
        return None


def split_data_url(url: str) -> tuple[str, bytes] | None:
    """Return the media type and the bytes of a ``data:`` URL; ``None`` if it is another URL."""
    head, comma, text = url.partition(",")
    if not (comma and head.startswith("data:") and head.endswith(";base64")):
        return None
    data = decode_base64(text)
    mime_type = head.removeprefix("data:").removesuffix(";base64").partition(";")[0]
    return None if data is None else (mime_type, data)


def make_media(
    mime_type: str, *, data: bytes | None, name: str | None = None, url: str | None = None
) -> MediaContent:
    """Create an image, audio, video or file, according to the media type."""
    return choose_media(mime_type)(mime_type=mime_type, data=data, name=name, url=url)


@define
class Draft:
    """Imported part of a conversation so far, with its losses.

    Attributes:
        source: The name of the source, such as ``chatgpt``.
        key: The key of the conversation at the source.
        place: The place of the conversation in the document, for losses.
        created: The time of its creation, if known.
        origin: The origin of the answers that are added next.
        canisters: The canisters so far.
        losses: The losses so far.
    """

    source: str
    key: str
    place: str
    created: datetime | None = None
    origin: Origin | None = None
    canisters: list[AnyCanister] = attrs.field(factory=list)
    losses: list[Loss] = attrs.field(factory=list)
    _message: str = ""
    _count: int = 0
    _turn: str = ""
    _moment: datetime | None = None

    def add_loss(self, place: str, reason: str, kind: LossKind = LossKind.DROPPED) -> None:
        """Record a loss."""
        self.losses.append(Loss(kind=kind, path=f"{self.place}{place}", reason=reason))

    def begin(self, key: str, moment: datetime | None) -> None:
        """Begin a message; canisters that are added next belong to this message.

        Args:
            key: The key of the message at the source; the canisters' ids are derived from it.
            moment: The time of the message; by default that of the message before.
        """
        self._message, self._count = key, 0
        self._moment = moment or self._moment

    def begin_turn(self, key: str = "") -> None:
        """Put the model's next canisters into the turn with a key; a new turn by default."""
        self._turn = derive_identity(self.source, self.key, "turn", key) if key else ""

    def add_user(self, contents: Sequence[AnyContent]) -> None:
        """Add a user message; the model's next answer begins a new turn."""
        if contents:
            self._turn = ""
            self.canisters.append(UserCanister(tuple(contents), **self._identify()))

    def add_supervisor(self, contents: Sequence[AnyContent]) -> None:
        """Add instructions."""
        if contents:
            self.canisters.append(SupervisorCanister(tuple(contents), **self._identify()))

    def add_document(self, contents: Sequence[AnyContent], title: str | None) -> None:
        """Add a document."""
        if contents:
            self.canisters.append(
                DocumentCanister(tuple(contents), title=title, **self._identify())
            )

    def add_answer(self, contents: Sequence[AnyContent]) -> None:
        """Add reasoning and text of the model."""
        if contents:
            self.canisters.append(AssistantCanister(tuple(contents), **self._identify_turn()))

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
                **self._identify_turn(),
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
        """Add the result of a call.

        The result of a call that the vendor executed is part of the model's turn.
        """
        fields = self._identify_turn() if owner is Owner.VENDOR else self._identify()
        self.canisters.append(
            ResultCanister(
                tuple(contents),
                invocation_id=invocation_id,
                name=name,
                is_error=is_error,
                owner=owner,
                **fields,
            )
        )
        if owner is Owner.OURS:
            self._turn = ""

    def finish(
        self, name: str | None, losses: Sequence[Loss] = (), *, tags: Sequence[str] = ()
    ) -> Translation[Conversation]:
        """Return the conversation, with its losses."""
        from vibe_llms.conversations.conversation import Conversation

        self._drop_repeated()
        first = self.canisters[0].timestamp if self.canisters else UNKNOWN_TIME
        conversation = Conversation(
            id=derive_identity(self.source, self.key),
            metadata=ConversationMetadata(
                name=name or None, created=self.created or first, tags=tuple(tags)
            ),
            canisters=self.canisters,
        )
        return Translation(conversation, (*self.losses, *losses))

    def _drop_repeated(self) -> None:
        """Drop messages whose key occurs twice at the source, as ids are distinct."""
        kept: dict[str, AnyCanister] = {}
        for canister in self.canisters:
            if kept.setdefault(canister.id, canister) is not canister:
                self.add_loss("", "a message with the id of an earlier message")
        self.canisters = list(kept.values())

    def _identify(self) -> dict[str, Any]:
        """Return the id and the timestamp of the next canister."""
        self._count += 1
        identity = derive_identity(self.source, self.key, self._message, str(self._count))
        return {"id": identity, "timestamp": self._moment or self.created or UNKNOWN_TIME}

    def _identify_turn(self) -> dict[str, Any]:
        """Return the common fields of a model's canister, with origin and turn."""
        fields = self._identify()
        self._turn = self._turn or str(fields["id"])
        return {**fields, "origin": self.origin, "turn_id": self._turn}
