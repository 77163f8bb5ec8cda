"""Recorder: a transport that records exchanges without their secrets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.secrets import HIDDEN, Secret
from vibe_llms.testing.recording.recordings import Recording, read_body, write_recording
from vibe_llms.wire.exchanges import Exchange, Transport, WireRequest
from vibe_llms.wire.scrubbing import Scrubber

SECRET_NAMES = re.compile(r"auth|key|token|secret|cookie|password|signature|credential|^sig$", re.I)
"""Headers and query parameters whose values count as secrets, whatever they contain."""
KEPT_HEADERS = {
    "retry-after": re.compile(r"[0-9.]{1,12}"),
    "retry-after-ms": re.compile(r"[0-9.]{1,12}"),
    "x-should-retry": re.compile(r"true|false"),
}
"""Headers of an answer that are kept, and the required form of their values."""
CONTENT_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(?:; *charset=[\w-]+)?")


def find_secrets(request: WireRequest) -> list[str]:
    """Return the secrets in a request's headers, query and address."""
    secrets: list[str] = []
    for name, value in request.headers.items():
        if isinstance(value, Secret):
            secrets.append(value.reveal())
        elif SECRET_NAMES.search(name):
            secrets.append(value)
    parts = urlsplit(request.url)
    secrets += [value for name, value in parse_qsl(parts.query) if SECRET_NAMES.search(name)]
    secrets += [text for text in (parts.username, parts.password) if text]
    # The key in "Bearer KEY" is a secret without its scheme, too.
    keys = [text.partition(" ")[2] for text in secrets if " " in text]
    return [*secrets, *keys]


def find_content_type(request: WireRequest) -> str:
    """Return the content type of a request's body; empty without one."""
    value = request.headers.get("content-type", "")
    return value if isinstance(value, str) else ""


def scrub_query(query: str, scrubber: Scrubber) -> str:
    """Redact the secret parameters of a query; keep their order."""
    pairs = [
        (name, HIDDEN if SECRET_NAMES.search(name) else scrubber.scrub_text(value))
        for name, value in parse_qsl(query, keep_blank_values=True)
    ]
    return "&".join(
        f"{quote(scrubber.scrub_text(name), safe='*')}={quote(value, safe='*')}"
        for name, value in pairs
    )


class Recorder:
    """Records the exchanges of another transport, one line of JSON each.

    Headers of requests are not recorded, and of answers only the headers in :data:`KEPT_HEADERS`.
    The secrets of a request are redacted everywhere else, in every form that :class:`Scrubber`
    knows. An exchange is written when its body was read completely, or when the exchange is closed.

    Args:
        transport: The real transport.
        path: The file to append to.
        secrets: Further secrets to redact.
    """

    def __init__(
        self, transport: Transport, path: Path, *, secrets: Iterable[Secret | str] = ()
    ) -> None:
        self._transport = transport
        self._path = path
        self._scrubber = Scrubber(secrets)

    async def send(self, request: WireRequest) -> Exchange:
        """Send a request by the other transport; see :class:`Transport`."""
        self._scrubber.add(*find_secrets(request))
        exchange = await self._transport.send(request)
        return _RecordedExchange(exchange, request, self._scrubber, self._path)

    async def close(self) -> None:
        """Close the other transport."""
        await self._transport.close()


class _RecordedExchange(Closing):
    """Exchange that collects the body, and writes the recording when it ends."""

    def __init__(
        self, exchange: Exchange, request: WireRequest, scrubber: Scrubber, path: Path
    ) -> None:
        self._exchange = exchange
        self._request = request
        self._scrubber = scrubber
        self._path = path
        self._chunks: list[bytes] = []
        self._is_written = False

    @property
    def status(self) -> int:
        return self._exchange.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._exchange.headers

    @property
    def is_spent(self) -> bool:
        return False  # so that it is closed, which writes the recording

    async def receive(self) -> bytes:
        data = await self._exchange.receive()
        if data:
            self._chunks.append(data)
        else:
            self._write(is_complete=True)
        return data

    async def read(self, limit: int | None = None) -> bytes:
        data = await self._exchange.read(limit)
        if data:
            self._chunks.append(data)
        self._write(is_complete=True)
        return data

    async def close(self) -> None:
        self._write(is_complete=False)
        await self._exchange.close()

    def _write(self, *, is_complete: bool) -> None:
        if self._is_written:
            return
        self._is_written = True
        line = write_recording(self._produce_recording(is_complete))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def _produce_recording(self, is_complete: bool) -> Recording:
        scrubber, request = self._scrubber, self._request
        parts = urlsplit(request.url)
        body = scrubber.scrub(request.body)
        chunks = tuple(piece for piece in scrubber.scrub_pieces(self._chunks) if piece)
        identity = hashlib.sha256(b"\0".join([parts.path.encode(), body, *chunks])).hexdigest()
        headers = self._exchange.headers
        content_type = headers.get("content-type", "")
        return Recording(
            id=identity[:16],
            method=request.method,
            host=scrubber.scrub_text(parts.hostname or ""),
            path=scrubber.scrub_text(parts.path),
            query=scrub_query(parts.query, scrubber),
            request=read_body(body, find_content_type(request)),
            status=self._exchange.status,
            content_type=content_type if CONTENT_TYPE.fullmatch(content_type) else "",
            headers={
                name: headers[name]
                for name, form in KEPT_HEADERS.items()
                if form.fullmatch(headers.get(name, ""))
            },
            chunks=chunks,
            is_complete=is_complete,
        )
