"""Which identities a store takes: those that name one folder on every file system."""

from __future__ import annotations

import re

# Lower case only: a file system that ignores case would take two conversations for one.
_IDENTITY = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
_CONTENT_ID = re.compile(r"[0-9a-f]{64}", re.ASCII)
# Sought in the raw bytes, so that a damaged line still protects the content that it names.
_REFERENCE = re.compile(rb'"content_id":\s*"([0-9a-f]{64})"')
_WINDOWS_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(10))]
)

is_identity_form = _IDENTITY.fullmatch
is_content_id = _CONTENT_ID.fullmatch


def ensure_identity(identity: str) -> str:
    """Returns the identity if it can name a folder.

    Raises:
        StoreError: It could lead out of the store, or means different things on different
            file systems.
    """
    # On every system: a store may be copied to a machine on which these are devices.
    if is_identity_form(identity) is None or identity in _WINDOWS_DEVICES:
        from vibe_llms.exceptions import StoreError  # needed after a mistake only

        raise StoreError(
            detail=f"Invalid id of a conversation: {identity!r}.",
            remedy="Use 1 to 64 lower-case letters, digits, - and _, starting with a letter or "
            "digit.",
        )
    return identity


def ensure_content_id(content_id: str) -> str:
    """Returns the id if it is a whole SHA-256 in lower-case hexadecimal digits.

    Raises:
        StoreError: It is not.
    """
    if is_content_id(content_id) is None:
        from vibe_llms.exceptions import StoreError  # needed after a mistake only

        raise StoreError(
            detail=f"Invalid id of content: {content_id!r}. It must be a whole SHA-256."
        )
    return content_id


def find_references(data: bytes) -> set[str]:
    """Returns the ids of all content that lines name, whatever else is in them."""
    return {match.decode() for match in _REFERENCE.findall(data)}
