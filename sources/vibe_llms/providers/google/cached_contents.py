"""Cached contents: prefixes of requests that Google keeps, made once and used by name.

A content is found again by its display name, which is the digest of the prefix. So programs that
follow each other, and several at once, use the same one.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

import msgspec

from vibe_llms.dialects.generate_content.calling.caching import CachedPrefix
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault, Stage
from vibe_llms.messages.requests import Request
from vibe_llms.providers.vendors import VendorClient

_MAX_KEPT: Final = 256
_PAGE: Final = 1000
_MARGIN_SECONDS: Final = 30
"""A content that ends within this time is made anew, as a request with it might fail."""


class CachedContents:
    """The cached contents that one provider knows.

    Args:
        path: The path of their list.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: OrderedDict[str, tuple[str, datetime]] = OrderedDict()
        self._refused: dict[str, str] = {}
        self._is_listed = False
        self._client: VendorClient | None = None
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    async def access(self, client: VendorClient, model: str, prefix: CachedPrefix) -> str:
        """Return the name of the cached content of a prefix; create it if there is none.

        Args:
            model: The resource name of the model.

        Raises:
            ConverseError: The vendor refuses it.
        """
        digest, self._client = _digest(model, prefix), client
        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:  # several requests at once would each create one
            name = self._find(digest)
            if name is None and not self._is_listed:
                await self._list(client)
                name = self._find(digest)
            if name is None:
                name = await self._create(client, model, prefix, digest)
        return name

    async def forget_missing(self, request: Request) -> bool:
        """Forget the contents that Google no longer has; return whether there are any."""
        if self._client is None:
            return False
        known = {name for name, _ in self._known.values()}
        self._known.clear()
        await self._list(self._client)
        return not known <= {name for name, _ in self._known.values()}

    def _find(self, digest: str) -> str | None:
        name, end = self._known.get(digest, ("", datetime.min.replace(tzinfo=UTC)))
        if (end - datetime.now(UTC)).total_seconds() < _MARGIN_SECONDS:
            self._known.pop(digest, None)
            return None
        self._known.move_to_end(digest)
        return name

    def _keep(self, content: Any) -> str:
        try:
            name, digest = str(content["name"]), str(content.get("displayName") or content["name"])
            end = datetime.fromisoformat(str(content["expireTime"]))
        except (AttributeError, KeyError, TypeError, ValueError):
            detail = "The description of a cached content is invalid."
            raise ConverseError(detail=detail, stage=Stage.DECODE) from None
        self._known[digest] = name, end
        while len(self._known) > _MAX_KEPT:
            self._known.popitem(last=False)
        return name

    async def _list(self, client: VendorClient) -> None:
        """Look for contents that were created by other programs."""
        self._is_listed = True
        token = ""
        while True:
            query = urlencode({"pageSize": _PAGE} | ({"pageToken": token} if token else {}))
            page: Any = await client.request_json("GET", f"{self._path}?{query}")
            for content in page.get("cachedContents") or ():
                self._keep(content)
            before, token = token, page.get("nextPageToken") or ""
            if not token or token == before:
                return

    async def _create(
        self, client: VendorClient, model: str, prefix: CachedPrefix, digest: str
    ) -> str:
        if digest in self._refused:
            raise ProviderError(
                provider=client.vendor.context.name,
                fault=ProviderFault.INVALID_REQUEST,
                detail=self._refused[digest],
            )
        lifetime = {} if prefix.seconds is None else {"ttl": f"{prefix.seconds}s"}
        body = {"model": model, **prefix.prefix, **lifetime, "displayName": digest}
        try:
            return self._keep(await client.request_json("POST", self._path, body))
        except ConverseError as error:
            if isinstance(error, ProviderError) and error.fault is ProviderFault.INVALID_REQUEST:
                self._refused[digest] = error.detail  # it would refuse it each time
            raise


def _digest(model: str, prefix: CachedPrefix) -> str:
    data = msgspec.json.encode([model, prefix.prefix, prefix.seconds], order="sorted")
    return f"vibe-{hashlib.sha256(data).hexdigest()}"
