"""Cutting answers out of what comes on a connection; httptools knows their grammar."""

from __future__ import annotations

from typing import Final

import httptools

from vibe_llms.wire.bodies import HEADER_BYTES
from vibe_llms.wire.http.faults import BodyBroken, HeadTooLong, NotHttp

HEAD_BYTES: Final = 2 * HEADER_BYTES
"""How long all headers of an answer may be, and those of what comes before and after it."""


class _Enough(Exception):
    """Stops the parser: what comes is no part of the answer."""


class AnswerReader:
    """A machine that is fed with bytes, cut anywhere, and has the answer in them.

    It reads one answer after another, each from :meth:`begin` on. What comes before the headers
    of the answer itself (1xx) is passed by, as are trailers.

    Attributes:
        status: Of the answer, as ``headers``, from when it ``is_ready``.
        pieces: Of the body; whoever takes them clears the list.
        is_ready: The head is there.
        is_complete: All of it is there.
        is_kept: Another answer may follow on the same connection.
    """

    __slots__ = (
        "_ends_with_connection",
        "_fruitless",
        "_is_bodiless",
        "_is_head_too_long",
        "_parser",
        "_raw",
        "headers",
        "is_complete",
        "is_kept",
        "is_ready",
        "on_body",
        "on_header",
        "pieces",
        "status",
    )

    def __init__(self) -> None:
        self._raw: dict[bytes, bytes] = {}
        self.pieces: list[bytes] = []
        # The parser calls these two for each header and piece: built-in functions cost least.
        self.on_header = self._raw.__setitem__
        self.on_body = self.pieces.append
        self._parser = httptools.HttpResponseParser(self)
        # What servers get wrong, and nobody can be fooled by in an answer.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self.begin()

    def begin(self, *, is_bodiless: bool = False) -> None:
        """Forget the answer before, which was complete.

        Args:
            is_bodiless: The answer has no body, whatever its headers say.
        """
        self.pieces.clear()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_ready = False
        self.is_complete = False
        self.is_kept = False
        self._is_bodiless = is_bodiless
        self._ends_with_connection = False
        self._fruitless = 0
        self._is_head_too_long = False

    def feed(self, data: bytes | memoryview) -> ConnectionError | None:
        """Take what has come; returns what is wrong with it, if something is.

        Whatever is kept of it is a copy, as what follows is read into the same place.
        """
        if not self.is_ready:
            allowed = HEAD_BYTES - self._fruitless
            self._fruitless += len(data)
            fault = self._parse(data[:allowed] if len(data) > allowed else data)
            if not self.status:  # which comes with it
                return fault or (HeadTooLong() if self._fruitless >= HEAD_BYTES else None)
            self._fruitless = 0
            data = data[allowed:]
            if fault or not data:
                return fault
        if self.is_complete:
            self.is_kept = False  # more than the answer has come
            return None
        count = len(self.pieces)
        fault = self._parse(data)
        if len(self.pieces) != count:
            self._fruitless = 0
        elif not self.is_complete:
            self._fruitless += len(data)  # within what describes a chunk, or follows the last
            if self._fruitless > HEAD_BYTES:
                return fault or BodyBroken()
        return fault

    def _parse(self, data: bytes | memoryview) -> ConnectionError | None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:  # upgrades are one, too
            if self.is_complete:
                self.is_kept = False
            elif self._is_head_too_long:
                return HeadTooLong()
            else:
                return BodyBroken() if self.is_ready else NotHttp()
        return None

    def end(self) -> ConnectionError | None:
        """Is told that nothing more comes; returns what is wrong with that, if something is."""
        if self.is_ready and self._ends_with_connection:
            self.is_complete = True
        if self.is_complete:
            return None
        return BodyBroken() if self.is_ready else ConnectionError()

    # What the parser tells

    def on_message_begin(self) -> None:
        """Is told of the beginning of an answer."""
        # A second answer, which nobody asked for, must not be taken into this one.
        if self.is_complete:
            raise _Enough

    def on_headers_complete(self) -> None:
        """Is told that the head is there."""
        status = self._parser.get_status_code()
        # 101 is the last word on a connection: another protocol follows, which nobody asked for.
        if 100 <= status < 200 and status != 101:
            return
        raw = self._raw
        if self._fruitless > HEADER_BYTES and max(map(len, raw.values()), default=0) > HEADER_BYTES:
            # The error's context would not tell: it is another one within an `except`.
            self._is_head_too_long = True
            raise _Enough
        if status < 200 or b"\0" in b"".join(raw.values()):
            raise _Enough
        self.status = status
        self.headers = {
            name.decode("latin-1").lower(): value.decode("utf-8", "surrogateescape").strip(" \t")
            for name, value in raw.items()
        }
        self.is_ready = True
        # The parser would read on for the body that the headers announce.
        if self._is_bodiless:
            self.is_complete = True
            raise _Enough
        self.is_kept = self._parser.should_keep_alive()
        coding = self.headers.get("transfer-encoding")
        if coding is not None:
            self._ends_with_connection = not coding.lower().endswith("chunked")
        else:
            self._ends_with_connection = "content-length" not in self.headers

    def on_message_complete(self) -> None:
        """Is told of the end of an answer."""
        if self.is_ready:
            self.is_complete = True
        self._raw.clear()  # those of a 1xx, and trailers, are not the answer's
