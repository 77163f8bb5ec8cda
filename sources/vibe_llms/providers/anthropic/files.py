"""Anthropic's files: ``/v1/files``."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from vibe_llms.foundation.forms import FormFile, encode_form
from vibe_llms.messages.contents import MediaContent
from vibe_llms.messages.vendor_files import VendorFile
from vibe_llms.providers.uploads import name_upload, refuse_file_answer
from vibe_llms.providers.vendors import VendorClient

LIFE_SECONDS: Final = 7_776_000
"""Age at which the vendor deletes an upload: its maximum, 90 days. Source: ``FileUploadParams`` of
the PyPI distribution anthropic 2.14.0.
"""

_IMAGES: Final = ("image/gif", "image/jpeg", "image/png", "image/webp")


class AnthropicFiles:
    """Files of a workspace; see :class:`~vibe_llms.providers.uploads.VendorFiles`."""

    keeps_names = True  # the name is sent as the title of a document

    def __init__(self, client: VendorClient) -> None:
        self._client = client

    def accepts(self, content: MediaContent) -> bool:
        """Return whether a message can refer to this kind of content."""
        is_document = content.type == "file" and content.mime_type == "application/pdf"
        return is_document or (content.type == "image" and content.mime_type in _IMAGES)

    async def upload(self, content: MediaContent) -> VendorFile:
        """Upload the data of a content, for 90 days."""
        file = FormFile(content.data or b"", name_upload(content), content.mime_type)
        form = encode_form((("expires_in_seconds", str(LIFE_SECONDS)), ("file", file)))
        return _read(await self._client.request_json("POST", "/v1/files", encoded=form))

    async def find(self, identity: str) -> VendorFile:
        """Return a file."""
        return _read(await self._client.request_json("GET", _locate(identity)))

    async def delete(self, identity: str) -> None:
        """Delete a file."""
        await self._client.request_json("DELETE", _locate(identity))


def _locate(identity: str) -> str:
    return f"/v1/files/{quote(identity, safe='')}"


def _read(answer: Any) -> VendorFile:
    match answer:
        case {"id": str(identity), **fields}:
            ends = fields.get("expires_at")
            try:
                moment = datetime.fromisoformat(ends) if isinstance(ends, str) else None
            except ValueError:
                raise refuse_file_answer() from None
            return VendorFile(id=identity, ends=moment)
    raise refuse_file_answer()
