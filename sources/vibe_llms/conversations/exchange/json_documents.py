"""Self-contained JSON document of a conversation, with media as base64.

Each line has one canister, in the format of the stores, so that ``grep`` and any JSON parser can
read the document.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.conversations.canister_media import hydrate
from vibe_llms.conversations.exchange.interfaces import Exportable
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.interfaces import ContentStore
from vibe_llms.exceptions import CodecError, ConverseError
from vibe_llms.foundation.files import open_reader, read_regular
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.codec.canister_lines import decode_canister, encode_canister
from vibe_llms.messages.losses import Translation

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation

FORMAT = "vibe-llms.conversation"
VERSION = 1


_BEGINNING_BYTES = 4096


def export_json(conversation: Exportable, content_store: ContentStore) -> str:
    """Write a conversation with all its media as one JSON document.

    Inherited canisters of a fork are included; its parent is only named.

    Raises:
        StoreError: Referenced content is not in the store.
        CorruptionError: Content does not match its id.
    """
    metadata = conversation.metadata
    head = {
        "format": FORMAT,
        "version": VERSION,
        "id": conversation.id,
        "name": metadata.name,
        "created": metadata.created.isoformat(),
        "updated": metadata.updated.isoformat(),
        "tags": list(metadata.tags),
        "model": metadata.model,
        "forked_from": None if metadata.parent is None else metadata.parent.identity,
        **({} if metadata.keep is None else {"keep": metadata.keep}),
        **({"pinned": list(metadata.pinned)} if metadata.pinned else {}),
    }
    lines = [
        encode_canister(canister).decode("utf-8")
        for canister in hydrate(conversation.canisters, content_store)
    ]
    # Without the line end and the closing brace, as the canisters precede them.
    beginning = json.dumps(head, ensure_ascii=False, indent=0)[:-2]
    return f'{beginning},\n"canisters": [\n' + ",\n".join(lines) + "\n]\n}\n"


def is_document(path: Path) -> bool:
    """Return whether a file begins like a document of :func:`export_json`."""
    with open_reader(str(path)) as file:
        beginning = file.read(_BEGINNING_BYTES)
    return b'"format"' in beginning and f'"{FORMAT}"'.encode() in beginning


def read_json(path: Path) -> Iterator[Translation[Conversation]]:
    """Yield the only conversation of a file."""
    yield Translation(import_json(read_regular(str(path))))


def import_json(document: str | bytes) -> Conversation:
    """Import a document of :func:`export_json`; the canisters contain the bytes of media.

    The conversation keeps its id, and has neither a store nor a parent.

    Raises:
        CodecError: The document is invalid; the error names the place.
    """
    from vibe_llms.conversations.conversation import Conversation

    try:
        table = json.loads(document)
    except ValueError as error:
        raise CodecError(detail=f"Invalid JSON: {error}.") from error
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise CodecError(
            path="$.format",
            detail="The document is not an exported conversation.",
            known=(FORMAT,),
        )
    if table.get("version") != VERSION:
        raise CodecError(
            path="$.version",
            detail=f"Unknown version {table.get('version')!r} of the document.",
            known=(str(VERSION),),
            remedy="Upgrade vibe-llms.",
        )
    try:
        return Conversation(
            id=table["id"],
            metadata=ConversationMetadata(
                name=table["name"],
                created=datetime.fromisoformat(table["created"]),
                updated=datetime.fromisoformat(table["updated"]),
                tags=table["tags"],
                model=table["model"],
                keep=table.get("keep"),
                pinned=table.get("pinned", ()),
            ),
            canisters=[
                _decode(index, canister) for index, canister in enumerate(table["canisters"])
            ],
        )
    except (KeyError, TypeError, ValueError) as error:
        # Our errors are also ValueErrors, and more specific.
        if isinstance(error, ConverseError):
            raise
        raise CodecError(
            detail=f"A field of the document is missing or invalid: {error}."
        ) from error


def _decode(index: int, canister: object) -> AnyCanister:
    try:
        return decode_canister(json.dumps(canister))
    except CodecError as error:
        place = error.path.removeprefix("$")
        raise CodecError(
            path=f"$.canisters[{index}]{place}", detail=error.detail, known=error.known
        ) from error
