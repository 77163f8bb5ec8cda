"""WAV files of samples with 16 bits and one channel: headers, written and read."""

from __future__ import annotations

import struct
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen

_UNKNOWN_SIZE: Final = 0xFFFF_FFFF
_PCM: Final = 1
_EXTENSIBLE: Final = 0xFFFE
"""Format tag of files whose subformat has the actual tag."""
_LONGEST_HEAD: Final = 65_536


def begin_wav(rate: int, size: int | None = None) -> bytes:
    """Return the header of a WAV file with 16 bits and one channel.

    Args:
        rate: Samples per second.
        size: Size of the samples in bytes; ``None`` for a stream whose end is not known.
    """
    data = _UNKNOWN_SIZE if size is None else size
    whole = _UNKNOWN_SIZE if size is None else size + 36
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, rate * 2, 2, 16)
    return (
        struct.pack("<4sI4s", b"RIFF", whole, b"WAVE") + form + struct.pack("<4sI", b"data", data)
    )


def wrap_pcm(samples: bytes, rate: int) -> bytes:
    """Return a WAV file of samples with 16 bits and one channel."""
    return begin_wav(rate, len(samples)) + samples


@frozen(kw_only=True)
class WavHead:
    """Header of a WAV file.

    Attributes:
        rate: Samples per second; 0 if the samples do not have 16 bits and one channel.
        size: Size of the header in bytes.
        data_size: Size of the samples in bytes, after which other chunks may follow; ``None`` if
            unknown.
    """

    rate: int
    size: int
    data_size: int | None = None


def read_wav_head(data: bytes) -> WavHead | None:
    """Read the header at the beginning of a WAV file; ``None`` if more bytes are needed."""
    position, rate = 12, 0
    while position + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, position)
        position += 8
        if name == b"data":
            known = None if size in (0, _UNKNOWN_SIZE) else size
            return WavHead(rate=rate, size=position, data_size=known)
        if name == b"fmt " and position + 16 <= len(data):
            tag, channels, found, _, _, bits = struct.unpack_from("<HHIIHH", data, position)
            if tag in (_PCM, _EXTENSIBLE) and (channels, bits) == (1, 16):
                rate = found
        position += size + size % 2
    return None if len(data) < _LONGEST_HEAD else WavHead(rate=0, size=0)
