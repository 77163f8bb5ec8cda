"""Input that is still arriving: iterators that may block, and the type of live audio."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any, Final, TypeVar

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.wav import read_wav_head
from vibe_llms.invocables.threads import run_in_thread
from vibe_llms.messages.signatures import recognize

T = TypeVar("T")

_SIGNATURE_BYTES: Final = 16
_END: Final = object()


async def iterate(items: AsyncIterable[T] | Iterable[T]) -> AsyncIterator[T]:
    """Iterate over items, and close their iterator. A plain iterable is read in a thread."""
    if isinstance(items, AsyncIterable):
        iterator: Any = aiter(items)
        try:
            async for item in iterator:
                yield item
        finally:
            if hasattr(iterator, "aclose"):
                await iterator.aclose()
        return
    plain = iter(items)
    while (next_item := await run_in_thread(lambda: next(plain, _END))) is not _END:
        yield next_item  # type: ignore[misc]


class LiveAudio(Closing):
    """Audio that is still being recorded.

    Args:
        pieces: Its bytes, as they arrive.
        sample_rate: Samples per second of samples without a header; ``None`` to detect the type.

    Attributes:
        mime_type: Type of the audio, once :meth:`detect` has returned.
        sample_rate: Samples per second of ``audio/pcm``; ``None`` for other types.
    """

    def __init__(
        self, pieces: AsyncIterable[bytes] | Iterable[bytes], sample_rate: int | None = None
    ) -> None:
        self._source: Any = iterate(pieces)
        self._beginning = b""
        self._left: int | None = None  # bytes of the samples that were not yielded yet
        self.mime_type = "audio/pcm"
        self.sample_rate = sample_rate

    async def detect(self) -> None:
        """Wait for the first bytes, and detect the type; a WAV file becomes samples if possible.

        Raises:
            RequestError: The audio is empty, or of an unknown type.
        """
        await self._read_until(1 if self.sample_rate is not None else _SIGNATURE_BYTES)
        if not self._beginning:
            detail, remedy = "The audio is empty.", "Send its bytes as they are recorded."
            raise RequestError(path="audio", detail=detail, remedy=remedy)
        if self.sample_rate is not None:
            return
        found = recognize(self._beginning, "audio/", "video/")
        if found is None:
            detail = "The type of the audio is unknown."
            remedy = "For samples without a header (16 bits, one channel), set the sample rate."
            raise RequestError(path="audio", detail=detail, remedy=remedy)
        self.mime_type = found
        if found == "audio/wav":
            await self._strip_wav_head()

    async def close(self) -> None:
        """Stop reading the pieces."""
        await self._source.aclose()

    async def _strip_wav_head(self) -> None:
        while (head := read_wav_head(self._beginning)) is None:
            if not await self._read_more():
                return
        if head.rate:
            self._beginning, self._left = self._beginning[head.size :], head.data_size
            self.mime_type, self.sample_rate = "audio/pcm", head.rate

    async def _read_until(self, size: int) -> None:
        while len(self._beginning) < size and await self._read_more():
            pass

    async def _read_more(self) -> bool:
        piece: Any = await anext(self._source, None)
        if piece is None:
            return False
        if not isinstance(piece, bytes | bytearray | memoryview):
            detail = f"A piece of the audio is {type(piece).__name__}, not bytes."
            raise RequestError(path="audio", detail=detail, remedy="Yield bytes.")
        self._beginning += piece
        return True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the audio; no piece ends within a sample.

        Chunks behind the samples of a WAV file, such as its title, are left out.
        """
        width = 1 if self.sample_rate is None else 2
        while True:
            size = len(self._beginning) if self._left is None else self._left
            whole = min(size, len(self._beginning)) // width * width
            piece, self._beginning = self._beginning[:whole], self._beginning[whole:]
            if self._left is not None:
                self._left -= whole
            if piece:
                yield piece
            if (self._left is not None and self._left < width) or not await self._read_more():
                return
