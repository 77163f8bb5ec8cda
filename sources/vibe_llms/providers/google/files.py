"""Gemini's Files API: files for 48 hours, which messages name by their address."""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.forms import EncodedBody
from vibe_llms.messages.contents import MediaContent
from vibe_llms.messages.vendor_files import VendorFile
from vibe_llms.providers.uploads import name_upload, refuse_file_answer
from vibe_llms.providers.vendors import VendorClient

_PAUSES: Final = (0.5, 1, 2, 4, *(8,) * 35)
"""Seconds between two questions whether a video or audio is processed: five minutes in all."""


class GoogleFiles:
    """Files of a project; see :class:`~vibe_llms.providers.uploads.VendorFiles`.

    Args:
        client: The client that sends requests to the vendor.
        root: Beginning of all paths, such as ``/v1beta``.
    """

    keeps_names = False

    def __init__(self, client: VendorClient, root: str) -> None:
        self._client = client
        self._root = root

    def accepts(self, content: MediaContent) -> bool:
        """Return whether a message can refer to this kind of content: to any."""
        return True

    async def upload(self, content: MediaContent) -> VendorFile:
        """Upload the data of a content, and wait until the vendor has processed them.

        Raises:
            ConverseError: The vendor refuses them, or cannot process them.
        """
        encoded = _encode(content)
        path = f"/upload{self._root}/files?uploadType=multipart"
        answer: Any = await self._client.request_json("POST", path, encoded=encoded)
        file = answer.get("file") if isinstance(answer, dict) else None
        clock = self._client.vendor.context.clock
        for pause in _PAUSES:
            if not isinstance(file, dict) or file.get("state") != "PROCESSING":
                break
            await clock.sleep(pause)
            file = await self._request("GET", _read(file).id)
        if isinstance(file, dict) and file.get("state") in ("FAILED", "PROCESSING"):
            raise RequestError(
                path="canisters",
                detail=f"The vendor could not process {name_upload(content)!r}.",
                remedy="Convert it to another format, or send a shorter one.",
            )
        return _read(file)

    async def find(self, identity: str) -> VendorFile | None:
        """Return a file."""
        file: Any = await self._request("GET", identity)
        return None if isinstance(file, dict) and file.get("state") == "FAILED" else _read(file)

    async def delete(self, identity: str) -> None:
        """Delete a file."""
        await self._request("DELETE", identity)

    async def _request(self, method: str, identity: str) -> Any:
        name = quote(identity.rpartition("/")[2], safe="")
        return await self._client.request_json(method, f"{self._root}/files/{name}")


def _encode(content: MediaContent) -> EncodedBody:
    """Return the metadata and the data as ``multipart/related``, which takes one request."""
    boundary = f"vibe-{os.urandom(16).hex()}"
    metadata = json.dumps({"file": {"displayName": name_upload(content)}})
    head = (
        f"--{boundary}\r\nContent-Type: application/json; charset=utf-8\r\n\r\n{metadata}\r\n"
        f"--{boundary}\r\nContent-Type: {content.mime_type}\r\n\r\n"
    )
    end = f"\r\n--{boundary}--\r\n"
    data = b"".join((head.encode(), content.data or b"", end.encode()))
    return EncodedBody(data, f"multipart/related; boundary={boundary}")


def _read(file: Any) -> VendorFile:
    match file:
        case {"uri": str(uri), **fields}:
            ends = fields.get("expirationTime")
            try:
                moment = datetime.fromisoformat(ends) if isinstance(ends, str) else None
            except ValueError:
                raise refuse_file_answer() from None
            return VendorFile(id=uri, ends=moment)
    raise refuse_file_answer()
