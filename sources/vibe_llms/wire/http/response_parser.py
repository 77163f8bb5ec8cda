"""Parser of HTTP responses, based on httptools."""

from __future__ import annotations

from typing import Final

import httptools

from vibe_llms.wire.http.faults import BodyBroken, HeadTooLong, NotHttp
from vibe_llms.wire.size_limits import HEADER_BYTES

HEAD_BYTES: Final = 2 * HEADER_BYTES
"""Limit of all headers of a response, and of interim responses and trailers."""


_NAMES: Final[dict[bytes, str]] = {}
"""Names of headers as they arrive, and in lower case."""

_CACHED_NAMES: Final = 512
_CACHED_NAME_BYTES: Final = 64
"""Limits on the cached names, and on the length of each: vendors choose them."""


def _read_name(name: bytes) -> str:
    """Return the name of a header in lower case."""
    text = name.decode("latin-1").lower()
    if len(_NAMES) < _CACHED_NAMES and len(name) <= _CACHED_NAME_BYTES:
        _NAMES[name] = text
    return text


class _StopParsing(Exception):
    """Stops the parser: the following bytes do not belong to the response."""


class AnswerReader:
    """Incremental parser of responses from bytes, which may be split anywhere.

    It reads one response after another; :meth:`begin` starts a new one. Interim responses (1xx)
    and trailers are skipped.

    Attributes:
        status: Status; valid, like ``headers``, once it ``is_ready``.
        pieces: Pieces of the body; the caller takes them and clears the list.
        is_ready: Whether the headers have arrived.
        is_complete: Whether the whole response has arrived.
        keeps_alive: Whether the connection can be used for another response.
    """

    __slots__ = (
        "_bytes_without_body",
        "_ends_with_connection",
        "_is_bodiless",
        "_is_head_too_long",
        "_parser",
        "_raw",
        "headers",
        "is_complete",
        "is_ready",
        "keeps_alive",
        "on_body",
        "on_header",
        "pieces",
        "status",
    )

    def __init__(self) -> None:
        self._raw: dict[bytes, bytes] = {}
        self.pieces: list[bytes] = []
        # The parser calls these two for each header and piece; built-in functions are the fastest.
        self.on_header = self._raw.__setitem__
        self.on_body = self.pieces.append
        self._parser = httptools.HttpResponseParser(self)
        # Accept common mistakes of servers, which are harmless in a response.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self.begin()

    def begin(self, *, is_bodiless: bool = False) -> None:
        """Start a new response.

        Args:
            is_bodiless: Whether the response has no body, regardless of its headers.
        """
        self.pieces.clear()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_ready = False
        self.is_complete = False
        self.keeps_alive = False
        self._is_bodiless = is_bodiless
        self._ends_with_connection = False
        self._bytes_without_body = 0
        self._is_head_too_long = False

    def feed(self, data: bytes | memoryview) -> ConnectionError | None:
        """Parse received bytes; return the fault, if there is one.

        Data are copied, because the caller reuses the buffer.
        """
        if not self.is_ready:
            allowed = HEAD_BYTES - self._bytes_without_body
            self._bytes_without_body += len(data)
            fault = self._parse(data[:allowed] if len(data) > allowed else data)
            if not self.status:  # set together with the headers
                if fault is None and self._bytes_without_body >= HEAD_BYTES:
                    return HeadTooLong()
                return fault
            self._bytes_without_body = 0
            data = data[allowed:]
            if fault or not data:
                return fault
        if self.is_complete:
            self.keeps_alive = False  # bytes after the end of the response
            return None
        count = len(self.pieces)
        fault = self._parse(data)
        if len(self.pieces) != count:
            self._bytes_without_body = 0
        elif not self.is_complete:
            self._bytes_without_body += len(data)  # chunk headers or trailers
            if self._bytes_without_body > HEAD_BYTES:
                return fault or BodyBroken()
        return fault

    def _parse(self, data: bytes | memoryview) -> ConnectionError | None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:  # also raised for an upgrade
            if self.is_complete:
                self.keeps_alive = False
            elif self._is_head_too_long:
                return HeadTooLong()
            else:
                return BodyBroken() if self.is_ready else NotHttp()
        return None

    def end(self) -> ConnectionError | None:
        """Handle the end of the connection; return the fault, if there is one."""
        if self.is_ready and self._ends_with_connection:
            self.is_complete = True
        if self.is_complete:
            return None
        return BodyBroken() if self.is_ready else ConnectionError()

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        """Handle the beginning of a response."""
        # An unrequested second response must not become a part of this one.
        if self.is_complete:
            raise _StopParsing

    def on_headers_complete(self) -> None:
        """Handle the end of the headers."""
        status = self._parser.get_status_code()
        # 101 is final: an unrequested protocol follows.
        if 100 <= status < 200 and status != 101:
            return
        raw = self._raw
        values = b"".join(raw.values())
        if (
            self._bytes_without_body > HEADER_BYTES
            and max(map(len, raw.values()), default=0) > HEADER_BYTES
        ):
            # A flag, as the error that the parser raises does not show the reason.
            self._is_head_too_long = True
            raise _StopParsing
        if status < 200 or values.find(b"\0") >= 0:
            raise _StopParsing
        self.status = status
        if values.isascii():  # then, decoding is much faster without naming the encoding
            self.headers = {
                _NAMES.get(name) or _read_name(name): value.decode().strip(" \t")
                for name, value in raw.items()
            }
        else:
            self.headers = {
                _read_name(name): value.decode("utf-8", "surrogateescape").strip(" \t")
                for name, value in raw.items()
            }
        self.is_ready = True
        # The parser would wait for the body that the headers announce.
        if self._is_bodiless:
            self.is_complete = True
            raise _StopParsing
        self.keeps_alive = self._parser.should_keep_alive()
        coding = self.headers.get("transfer-encoding")
        if coding is not None:
            self._ends_with_connection = not coding.lower().endswith("chunked")
        else:
            self._ends_with_connection = "content-length" not in self.headers

    def on_message_complete(self) -> None:
        """Handle the end of a response."""
        if self.is_ready:
            self.is_complete = True
        self._raw.clear()  # drop the headers of interim responses, and trailers
