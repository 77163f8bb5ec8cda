"""References to files that clients have uploaded to the gateway.

Vendors do not know these files. A request that refers to one is translated, and has the data of the
file instead of its id; the provider uploads large data once to the vendor, if the vendor has files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.conversations.canister_media import replace_media
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import (
    ANY_TYPE,
    FileContent,
    MediaContent,
    choose_media,
)
from vibe_llms.messages.requests import Request, replace_canisters
from vibe_llms.messages.views import media_of

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.batches.files import ClientFile, FileStorage

FILE_MARK: Final = b"file-"
"""Bytes in each id."""

_IDENTITY: Final = re.compile(r"(?:.*/)?(file-[0-9a-f]{24})")
_IDENTITY_IN_BODY: Final = re.compile(rb"[\"/]file-[0-9a-f]{24}\"")


def refers_to_files(body: bytes) -> bool:
    """Return whether a body may refer to a file that was uploaded to the gateway."""
    return body.find(FILE_MARK) >= 0 and _IDENTITY_IN_BODY.search(body) is not None


async def load_files(request: Request, files: FileStorage, subject: str) -> Request:
    """Return a request with the data of a client's files instead of references to them.

    Raises:
        UnknownNameError: The client has no such file.
        StoreError: A file cannot be read.
    """
    loaded: dict[str, tuple[ClientFile, bytes]] = {}
    for content in media_of(request.canisters):
        identity = _find_identity(content)
        if identity and identity not in loaded:
            file = await files.find(identity, subject)
            loaded[identity] = (file, await files.read(file))
    if not loaded:
        return request

    def load(content: MediaContent) -> MediaContent:
        identity = _find_identity(content)
        return _fill(content, *loaded[identity]) if identity else content

    canisters: list[AnyCanister] = [replace_media(each, load) for each in request.canisters]
    return replace_canisters(request, canisters)


def _find_identity(content: MediaContent) -> str:
    """Return the id of the gateway's file that a content refers to; empty without one."""
    if content.data is not None:
        return ""
    found = _IDENTITY.fullmatch(content.file_id or content.url or "")
    return found[1] if found else ""


def _fill(content: MediaContent, file: ClientFile, data: bytes) -> MediaContent:
    # Native data of a reference, even if empty, tell which vendor has the file.
    native = content.native if content.native and content.native.data != "{}" else None
    stated = "" if content.is_vague else content.mime_type
    mime_type = file.media_type if file.media_type not in ("", ANY_TYPE) else stated
    fields: dict[str, Any] = {
        "data": data,
        "content_id": None,
        "url": None,
        "file_id": None,
        "name": content.name or file.name or None,
        "native": native,
        "mime_type": mime_type,
    }
    kind = choose_media(mime_type) if isinstance(content, FileContent) else type(content)
    if kind is type(content):
        return attrs.evolve(content, **fields)
    return kind(**fields)
