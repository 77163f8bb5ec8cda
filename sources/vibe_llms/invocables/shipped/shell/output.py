"""What a command writes: its beginning and its end are kept, however much it is."""

from __future__ import annotations

from typing import Final

HEAD_BYTES: Final = 20_000
TAIL_BYTES: Final = 40_000
_NOTE: Final = "\n[… {} bytes left out …]\n"


class Output:
    """Takes what a command writes, in bounded space.

    Attributes:
        size: How many bytes it was in all.
    """

    def __init__(self) -> None:
        self.size = 0
        self._head = bytearray()
        self._tail = bytearray()

    def take(self, data: bytes) -> None:
        """Takes the next piece."""
        self.size += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(0, room) :]
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    def compose(self) -> str:
        """Returns it as text, with a note where something is left out."""
        tail = bytes(self._tail[-TAIL_BYTES:])
        left_out = self.size - len(self._head) - len(tail)
        if not left_out:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        texts = (bytes(self._head).decode("utf-8", "replace"), tail.decode("utf-8", "replace"))
        return _NOTE.format(left_out).join(texts)
