"""Sections of live audio, for a model that takes only complete audio."""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator
from itertools import groupby
from sys import byteorder
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen

_FRAMES_PER_SECOND: Final = 50
_MAX_FRAMES: Final = 30 * _FRAMES_PER_SECOND
"""Length of a section without a pause: Whisper reads 30 seconds at once."""
_PAUSE_FRAMES: Final = 25
_MIN_FRAMES: Final = 50
"""Minimum length of a section: a shorter one has too little context."""
_LEAD_FRAMES: Final = 10
"""Silence that is kept before speech, as its first sounds are quiet."""
_SEARCHED_FRAMES: Final = 250
"""End of a section without a pause in which the quietest frame is searched."""
_MIN_LEVEL: Final = 100
"""Mean amplitude, of 32,768, below which any frame is silent."""
_PAUSE_SHARE: Final = 5
"""In a pause, the amplitude is at most this fraction of that of loud frames: -14 dB."""
_SILENT_SHARE: Final = 20
"""In silence, it is at most this fraction, -26 dB: a distant person is louder."""
_MAX_WAITING_SECONDS: Final = 600.0
"""Audio that is read ahead of a model that is slower than the audio."""
_STEP: Final = 4
"""One sample of this many is measured."""


@frozen(kw_only=True)
class Section:
    """A section of audio.

    Attributes:
        samples: Samples with 16 bits, little endian, one channel.
        start: Its beginning, in seconds after that of the audio.
    """

    samples: bytes
    start: float


class SectionCutter:
    """Cuts audio into sections at pauses. A state machine without I/O.

    Silence between sections is left out: Whisper tends to invent words for it.

    Args:
        rate: Samples per second.
    """

    def __init__(self, rate: int) -> None:
        self._frame_bytes = max(_STEP, rate // _FRAMES_PER_SECOND) * 2
        self._rate = rate
        self._samples = bytearray()
        self._levels: list[int] = []
        self._recent: deque[int] = deque(maxlen=_MAX_FRAMES)
        self._dropped = 0

    @property
    def seconds(self) -> float:
        """Length of all audio so far."""
        return (self._dropped + len(self._samples)) / 2 / self._rate

    @property
    def waiting_seconds(self) -> float:
        """Length of the audio that is in no section yet."""
        return len(self._samples) / 2 / self._rate

    def feed(self, samples: bytes) -> None:
        """Add audio; no piece ends within a sample."""
        self._samples += samples
        size = self._frame_bytes
        while len(self._samples) >= (len(self._levels) + 1) * size:
            start = len(self._levels) * size
            level = _measure(self._samples[start : start + size])
            self._levels.append(level)
            self._recent.append(level)

    def cut(self, *, is_end: bool = False) -> Section | None:
        """Return the next section; ``None`` if there is none before more audio arrives.

        A section is as long as the audio so far allows, so that a model that is slower than the
        audio has fewer sections.

        Args:
            is_end: Whether the audio is complete.
        """
        loud = self._find_loud_level()
        self._drop_silence(max(_MIN_LEVEL, loud // _SILENT_SHARE))
        if all(level <= max(_MIN_LEVEL, loud // _SILENT_SHARE) for level in self._levels):
            return None
        if is_end and len(self._levels) <= _MAX_FRAMES:
            return self._take(len(self._samples))
        frames = self._find_pause(max(_MIN_LEVEL, loud // _PAUSE_SHARE))
        if not frames and len(self._levels) > _MAX_FRAMES:
            frames = self._find_quietest()
        return self._take(frames * self._frame_bytes) if frames else None

    def _find_loud_level(self) -> int:
        """Return the amplitude that one recent frame in ten reaches."""
        levels = sorted(self._recent)
        return levels[len(levels) * 9 // 10] if levels else 0

    def _drop_silence(self, limit: int) -> None:
        """Drop the silence before the first speech, except for its end."""
        levels = self._levels
        leading = next((at for at, level in enumerate(levels) if level > limit), len(levels))
        count = max(0, leading - _LEAD_FRAMES)
        self._drop(count * self._frame_bytes)
        del self._levels[:count]

    def _find_pause(self, limit: int) -> int:
        """Return the number of frames up to the middle of the last pause that fits; 0 if none."""
        found = position = 0
        for is_quiet, run in groupby(self._levels, lambda level: level <= limit):
            length = sum(1 for _ in run)
            middle = position + length // 2
            if middle > _MAX_FRAMES:
                break
            # There is no pause before the first speech.
            if is_quiet and position and length >= _PAUSE_FRAMES and middle >= _MIN_FRAMES:
                found = middle
            position += length
        return found

    def _find_quietest(self) -> int:
        start = _MAX_FRAMES - _SEARCHED_FRAMES
        levels = self._levels[start:_MAX_FRAMES]
        return start + levels.index(min(levels))

    def _take(self, size: int) -> Section:
        start = self._dropped / 2 / self._rate
        section = Section(samples=bytes(self._samples[:size]), start=start)
        self._drop(size)
        del self._levels[: size // self._frame_bytes]
        return section

    def _drop(self, size: int) -> None:
        self._dropped += min(size, len(self._samples))
        del self._samples[:size]


async def read_sections(
    cutter: SectionCutter, pieces: AsyncIterable[bytes]
) -> AsyncIterator[Section]:
    """Yield the sections of audio. It is also read while the caller uses a section.

    Raises:
        Exception: The audio raised it.
    """
    arrived, taken = asyncio.Event(), asyncio.Event()

    async def read() -> None:
        async for piece in pieces:
            cutter.feed(piece)
            arrived.set()
            while cutter.waiting_seconds > _MAX_WAITING_SECONDS:
                taken.clear()
                await taken.wait()

    reader = asyncio.create_task(read())
    reader.add_done_callback(lambda _: arrived.set())
    try:
        while True:
            arrived.clear()
            if is_end := reader.done():
                reader.result()
            section = cutter.cut(is_end=is_end)
            taken.set()
            if section is not None:
                yield section
            elif is_end:
                return
            elif not reader.done():
                await arrived.wait()
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


def _measure(frame: bytearray) -> int:
    """Return the mean amplitude of a frame."""
    samples = array("h", bytes(frame))
    if byteorder == "big":  # pragma: no cover  # the samples are little endian
        samples.byteswap()
    measured = samples[::_STEP]
    return sum(map(abs, measured)) // len(measured)
