"""Encoding and decoding of a conversation's metadata, ``metadata.toml``.

A change of a name or tag keeps unknown fields, which a later version may have added: changes are
applied to the table as it was read.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any, TypeAlias

from vibe_llms.conversations.metadata import ConversationMetadata, ParentLink, order_tags
from vibe_llms.conversations.stores.identities import ensure_identity
from vibe_llms.exceptions import ConverseError, CorruptionError, StoreError

FORMAT = 1
"""The version of the store's layout, which is in every ``metadata.toml``."""

Table: TypeAlias = dict[str, Any]  # any TOML value; each value is checked where it is used

_LATEST_SECONDS = 253_402_300_799  # the end of the year 9999; file systems allow later times


def produce_table(identity: str, metadata: ConversationMetadata) -> Table:
    """Produce the table of a new conversation."""
    fields: Table = {"id": identity}
    if metadata.name is not None:
        fields["name"] = metadata.name
    fields["created"] = metadata.created
    fields["tags"] = list(metadata.tags)
    if metadata.model is not None:
        fields["model"] = metadata.model
    if metadata.keep is not None:
        fields["keep"] = metadata.keep
    if metadata.pinned:
        fields["pinned"] = list(metadata.pinned)
    table: Table = {"format": FORMAT, "conversation": fields}
    if metadata.parent is not None:
        table["parent"] = _produce_link(metadata.parent)
    return table


def _produce_link(link: ParentLink) -> Table:
    if link.bytes is not None:
        return {"id": link.identity, "bytes": link.bytes}
    return {"id": link.identity, "canisters": link.canisters}


def change_table(table: Table, changes: dict[str, object]) -> Table:
    """Return the table with some descriptive fields changed; ``None`` removes a field."""
    fields = {**table["conversation"], **changes}
    return {**table, "conversation": {k: v for k, v in fields.items() if v is not None}}


def replace_parent(table: Table, link: ParentLink | None, merged: int) -> Table:
    """Return the table with another parent, or without one, after bytes were merged into its file.

    Args:
        merged: Number of bytes that were moved from a deleted parent to the conversation's file.
    """
    rest = {key: value for key, value in table.items() if key != "parent"}
    if merged:
        rest = change_table(rest, {"merged_bytes": merged_bytes_of(table) + merged})
    return rest if link is None else {**rest, "parent": _produce_link(link)}


def merged_bytes_of(table: Table) -> int:
    """Return the number of bytes, at the beginning, that were moved from deleted parents."""
    value = table["conversation"].get("merged_bytes", 0)
    return value if isinstance(value, int) and value > 0 else 0


def encode_table(table: Table) -> bytes:
    """Return the text of ``metadata.toml``.

    Raises:
        StoreError: A name or tag contains a lone surrogate (half a character).
    """
    import tomli_w

    try:
        return tomli_w.dumps(table).encode()
    except UnicodeEncodeError as error:
        raise StoreError(
            detail=f"Cannot write a name or tag: {error.reason}.",
            remedy="Use text that is valid Unicode.",
        ) from error


def decode_table(data: bytes, path: str) -> Table:
    """Read ``metadata.toml``.

    Raises:
        CorruptionError: The file is not valid TOML, or lacks a required field.
        StoreError: A later version has written it.
    """
    import tomli

    try:
        table = tomli.loads(data.decode())
        format_number = table["format"]
        # Access required fields in this block, where the error can name the file.
        _ = table["conversation"]["created"], table.get("parent", {}).get("id")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptionError(
            path=path,
            detail=f"Cannot read the metadata: {error}.",
            remedy="Correct the file by hand; the messages are in messages.jsonl next to it.",
        ) from error
    if format_number != FORMAT:
        raise StoreError(
            path=path,
            detail=f"{path} has format {format_number}; this version of vibe-llms supports format "
            f"{FORMAT}.",
            remedy="Upgrade vibe-llms.",
        )
    return table


def interpret_table(table: Table, path: str, updated_ns: int | None) -> ConversationMetadata:
    """Return the metadata in a table.

    Args:
        updated_ns: Time of the last write of the messages; ``None`` if there are none.

    Raises:
        CorruptionError: A value is invalid.
    """
    fields, link = table["conversation"], table.get("parent")
    try:
        created = fields["created"]
        updated = created
        if updated_ns is not None:
            seconds = max(0, min(updated_ns / 1e9, _LATEST_SECONDS))
            # File systems round times down; but no canister can be older than the conversation.
            updated = max(created, datetime.fromtimestamp(seconds, UTC))
        return ConversationMetadata(
            name=_interpret_text(fields.get("name")),
            created=created,
            updated=updated,
            tags=tuple(filter(None, map(_interpret_text, order_tags(fields.get("tags", ()))))),
            model=_interpret_text(fields.get("model")),
            keep=fields.get("keep"),
            pinned=tuple(filter(None, map(_interpret_text, order_tags(fields.get("pinned", ()))))),
            parent=None if link is None else _interpret_link(link),
        )
    except (ConverseError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(path=path, detail=f"Invalid metadata: {error}.") from error


def _interpret_text(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _interpret_link(link: Table) -> ParentLink:
    return ParentLink(
        identity=ensure_identity(link["id"]),
        canisters=_interpret_measure(link.get("canisters")),
        bytes=_interpret_measure(link.get("bytes")),
    )


def _interpret_measure(value: object) -> int | None:
    # TOML allows larger numbers; reading that many bytes would overflow.
    if value is not None and (not isinstance(value, int) or value > sys.maxsize):
        raise TypeError(f"{value!r} is not a fork point")
    return value
