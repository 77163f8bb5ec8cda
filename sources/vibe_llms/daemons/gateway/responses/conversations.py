"""Endpoints for clients' conversations and their items.

Conversations are always stored in the gateway: the request that creates a conversation names no
model, so no upstream could store the conversation.
"""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from typing import Any, Final

import attrs

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.daemons.asgi import HttpCall, refuse_body
from vibe_llms.daemons.bodies import decode_body, read_json_body
from vibe_llms.daemons.gateway.client_requests import Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.responses import rows
from vibe_llms.daemons.gateway.responses.chains import TAG, read_shared
from vibe_llms.daemons.gateway.responses.items import (
    compose_page,
    read_canisters,
    read_item_list,
    write_items,
)
from vibe_llms.daemons.gateway.responses.response_bodies import Fields
from vibe_llms.daemons.gateway.responses.rows import GatewayConversation
from vibe_llms.daemons.gateway.responses.storage import ResponseStorage
from vibe_llms.daemons.records import CallRecord
from vibe_llms.exceptions import UnknownNameError
from vibe_llms.messages.canisters import AnyCanister

_MAX_ADDED: Final = 20
_MAX_METADATA: Final = 16
_KEY_CHARACTERS: Final = 64
_VALUE_CHARACTERS: Final = 512


class ConversationEndpoints:
    """The paths below ``/v1/conversations``.

    Args:
        gateway: Authenticates clients.
        storage: The storage.
        face: The protocol.
    """

    def __init__(self, gateway: Gateway, storage: ResponseStorage, face: Face) -> None:
        self._gateway = gateway
        self._storage = storage
        self._face = face

    async def create(self, call: HttpCall, record: CallRecord) -> None:
        """Create a conversation, with optional items. Raises ConverseError."""
        await self._admit(call, record)
        native = await _read_fields(call)
        canisters = _read_added(native)
        conversation = GatewayConversation(
            id=f"conv_{secrets.token_hex(24)}",
            subject=record.subject,
            metadata=_read_metadata(native.get("metadata")),
        )
        await asyncio.to_thread(self._add_to_store, conversation.id, canisters)
        await self._write(conversation)
        await call.send_json(_describe(conversation))

    def _add_to_store(self, identity: str, canisters: tuple[AnyCanister, ...]) -> None:
        store = self._storage.access_store()
        store.create(identity, ConversationMetadata(tags=(TAG,)))
        if canisters:
            store.append(identity, canisters)

    async def retrieve(self, call: HttpCall, record: CallRecord) -> None:
        """Return a conversation without its items. Raises ConverseError."""
        found = await self._find(call, record)
        await call.send_json(_describe(found))

    async def update(self, call: HttpCall, record: CallRecord) -> None:
        """Change the metadata. Raises ConverseError."""
        found = await self._find(call, record)
        native = await _read_fields(call)
        changed = attrs.evolve(found, metadata=_read_metadata(native.get("metadata")))
        await self._write(changed)
        await call.send_json(_describe(changed))

    async def delete(self, call: HttpCall, record: CallRecord) -> None:
        """Delete a conversation; its responses can still be read. Raises ConverseError."""
        found = await self._find(call, record)
        work = partial(rows.remove_conversation, identity=found.id)
        await self._storage.registry.perform(work)
        await self._storage.release(found.id)
        await call.send_json({"id": found.id, "object": "conversation.deleted", "deleted": True})

    async def add_items(self, call: HttpCall, record: CallRecord) -> None:
        """Append items. Raises ConverseError."""
        found = await self._find(call, record)
        canisters = _read_added(await _read_fields(call))
        store = self._storage.access_store()
        await asyncio.to_thread(store.append, found.id, canisters)
        page = compose_page(write_items(canisters), {"order": "asc", "limit": "100"})
        await call.send_json(page)

    async def list_items(self, call: HttpCall, record: CallRecord) -> None:
        """Return a page of items. Raises ConverseError."""
        found = await self._find(call, record)
        await call.send_json(compose_page(await self._read(found), call.query))

    async def retrieve_item(self, call: HttpCall, record: CallRecord) -> None:
        """Return one item. Raises ConverseError."""
        item = await self._access_item(await self._find(call, record), call.names["item"])
        await call.send_json(item)

    async def delete_item(self, call: HttpCall, record: CallRecord) -> None:
        """Remove an item from the conversation. Raises ConverseError."""
        found = await self._find(call, record)
        item = await self._access_item(found, call.names["item"])
        changed = attrs.evolve(found, hidden=(*found.hidden, item["id"]))
        await self._write(changed)
        await call.send_json(_describe(changed))

    async def _access_item(self, found: GatewayConversation, identity: str) -> Fields:
        for item in await self._read(found):
            if item["id"] == identity:
                return item
        raise UnknownNameError(kind="item", name=identity)

    async def _read(self, found: GatewayConversation) -> list[Fields]:
        """Return the items that were not removed."""
        chain = await asyncio.to_thread(read_shared, self._storage.access_store(), found.id)
        hidden = frozenset(found.hidden)
        return [item for item in write_items(chain.canisters) if item["id"] not in hidden]

    async def _write(self, conversation: GatewayConversation) -> None:
        work = partial(rows.write_conversation, conversation=conversation)
        await self._storage.registry.perform(work)

    async def _find(self, call: HttpCall, record: CallRecord) -> GatewayConversation:
        await self._admit(call, record)
        return await self._storage.access_conversation(call.names["id"], record.subject)

    async def _admit(self, call: HttpCall, record: CallRecord) -> None:
        record.face = self._face.name
        await self._gateway.authorize(call, record)


async def _read_fields(call: HttpCall) -> dict[str, Any]:
    body = await read_json_body(call)
    return decode_body(body) if body else {}


def _read_added(native: dict[str, Any]) -> tuple[AnyCanister, ...]:
    items = read_item_list(native.get("items"))
    if len(items) > _MAX_ADDED:
        raise refuse_body(f"At most {_MAX_ADDED} items can be added at once.", "items")
    return read_canisters(items)


def _read_metadata(value: object) -> dict[str, Any]:
    """Return metadata. Raises RequestError if they are invalid."""
    if value is None:
        return {}
    is_valid = (
        isinstance(value, dict)
        and len(value) <= _MAX_METADATA
        and all(len(name) <= _KEY_CHARACTERS for name in value)
        and all(isinstance(text, str) and len(text) <= _VALUE_CHARACTERS for text in value.values())
    )
    if not is_valid or not isinstance(value, dict):
        raise refuse_body(
            f"metadata takes at most {_MAX_METADATA} strings of {_VALUE_CHARACTERS} "
            f"characters, with names of {_KEY_CHARACTERS}.",
            "metadata",
        )
    return value


def _describe(conversation: GatewayConversation) -> Fields:
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": int(conversation.created),
        "metadata": conversation.metadata,
    }
