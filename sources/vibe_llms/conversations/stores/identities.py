"""Validation of ids: each must be a valid folder name, and a different one, on any file system."""

from __future__ import annotations

import re

# Lower case only: a case-insensitive file system would confuse two conversations.
_IDENTITY = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
_CONTENT_ID = re.compile(r"[0-9a-f]{64}", re.ASCII)
# Search the raw bytes, so that a damaged line still protects the content that it names.
_REFERENCE = re.compile(rb'"content_id":\s*"([0-9a-f]{64})"')
_WINDOWS_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(10))]
)

is_identity_form = _IDENTITY.fullmatch
is_content_id = _CONTENT_ID.fullmatch


def ensure_identity(identity: str) -> str:
    """Return the identity if it can name a folder.

    Raises:
        StoreError: The name could escape the store, or its meaning depends on the file system.
    """
    # Also on other systems, as a store may be copied to Windows, where these are devices.
    if is_identity_form(identity) is None or identity in _WINDOWS_DEVICES:
        from vibe_llms.exceptions import StoreError  # needed only for an error

        raise StoreError(
            detail=f"Invalid id of a conversation: {identity!r}.",
            remedy="Use 1 to 64 lower-case letters, digits, - and _, starting with a letter or "
            "digit.",
        )
    return identity


def ensure_content_id(content_id: str) -> str:
    """Return the id if it is a full SHA-256 in lower-case hexadecimal digits.

    Raises:
        StoreError: The id is invalid.
    """
    if is_content_id(content_id) is None:
        from vibe_llms.exceptions import StoreError  # needed only for an error

        raise StoreError(
            detail=f"Invalid id of content: {content_id!r}. It must be a whole SHA-256."
        )
    return content_id


def find_references(data: bytes) -> set[str]:
    """Return the ids of all content that lines name, even if the lines are damaged."""
    return {match.decode() for match in _REFERENCE.findall(data)}
