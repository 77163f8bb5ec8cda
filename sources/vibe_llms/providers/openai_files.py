"""OpenAI's files for messages (``/v1/files``), and those of services with the same paths."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from vibe_llms.foundation.forms import FormField, FormFile, encode_form
from vibe_llms.messages.contents import MediaContent
from vibe_llms.messages.vendor_files import VendorFile
from vibe_llms.providers.uploads import name_upload, refuse_file_answer
from vibe_llms.providers.vendors import VendorClient

LIFE_SECONDS: Final = 2_592_000
"""Age at which the vendor deletes an upload: its maximum, 30 days. Source: ``FileCreateParams`` of
the PyPI distribution openai 3.57.0.
"""


class OpenAIFiles:
    """Files of an account; see :class:`.uploads.VendorFiles`.

    Args:
        client: The client that sends requests to the vendor.
        types: Types of contents for which a message can have the id of a file.
        purpose: Purpose of uploads.
        expires: Whether the service deletes a file after the time that an upload sets.
    """

    keeps_names = False

    def __init__(
        self,
        client: VendorClient,
        types: Collection[str],
        *,
        purpose: str = "user_data",
        expires: bool = True,
    ) -> None:
        self._client = client
        self._types = types
        self._purpose = purpose
        self._expires = expires

    def accepts(self, content: MediaContent) -> bool:
        """Return whether a message can refer to this kind of content."""
        return content.type in self._types

    async def upload(self, content: MediaContent) -> VendorFile:
        """Upload the data of a content, if possible for 30 days."""
        file = FormFile(content.data or b"", name_upload(content), content.mime_type)
        fields: list[FormField] = [("purpose", self._purpose)]
        if self._expires:
            fields.append(("expires_after[anchor]", "created_at"))
            fields.append(("expires_after[seconds]", str(LIFE_SECONDS)))
        form = encode_form([*fields, ("file", file)])
        return _read(await self._client.request_json("POST", "/files", encoded=form))

    async def find(self, identity: str) -> VendorFile:
        """Return a file."""
        return _read(await self._client.request_json("GET", _locate(identity)))

    async def delete(self, identity: str) -> None:
        """Delete a file."""
        await self._client.request_json("DELETE", _locate(identity))


def _locate(identity: str) -> str:
    return f"/files/{quote(identity, safe='')}"


def _read(answer: Any) -> VendorFile:
    match answer:
        case {"id": str(identity), **fields}:
            ends = fields.get("expires_at")
            moment = datetime.fromtimestamp(ends, UTC) if isinstance(ends, int) else None
            return VendorFile(id=identity, ends=moment)
    raise refuse_file_answer()
