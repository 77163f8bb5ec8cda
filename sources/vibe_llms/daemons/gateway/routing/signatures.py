"""What one upstream alone can open: signatures, encrypted reasoning, ids of what it keeps.

An answer may hold such a seal, and the next request brings it back. It is then for the upstream
that it came from. Which one that was is remembered by a hash of the seal, in one worker.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

from vibe_llms.dialects.seals import MARK, read_provider

_KNOWN_COUNT: Final = 65_536
_LINE_BYTES: Final = 4_194_304

_TEXT: Final = rb'\s*:\s*"((?:[^"\\]|\\.)+)"'
_SEALS: Final = re.compile(
    rb'"(?:signature|encrypted_content|thoughtSignature|thought_signature|previous_response_id'
    rb"|file_id|fileUri|file_uri|container)\"" + _TEXT
)
"""Fields whose text is for one upstream, by the words of all protocols. Within another text, such
as what a user says, their quotes would stand behind backslashes."""

_MARK: Final = MARK.encode()
_ENVELOPES: Final = re.compile(_MARK + rb"[A-Za-z0-9+/_-]*")

_IDS: Final = re.compile(rb'"(?:id|name)"\s*:\s*"((?:resp|file|container|conv|files)[-_/][^"\\]+)"')
"""What an answer calls a thing that its upstream keeps, and a later request may name."""


def find_signatures(data: bytes) -> list[bytes]:
    """Returns the seals in a request, as they stand for their hashes.

    Envelopes are left out: other vendors never get their content, so any target may answer.
    """
    return [_hash(found) for found in _SEALS.findall(data) if not found.startswith(_MARK)]


def find_provider(data: bytes) -> str:
    """Return the provider of the last envelope in a request; empty where there is none."""
    found = _ENVELOPES.findall(data)
    return read_provider(found[-1].decode()) if found else ""


def _hash(text: bytes) -> bytes:
    if b"\\" in text:  # there is more than one way to write the same
        with contextlib.suppress(ValueError):
            text = json.loads(b'"' + text + b'"').encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=12).digest()


class SignatureReader:
    """Reads the seals of an answer while it goes by.

    Args:
        keep: Is told each.
    """

    def __init__(self, keep: Callable[[bytes], None]) -> None:
        self._keep = keep
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Hears a piece of the answer."""
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        if newline:
            self._read(whole)
        # A line that is longer than any is read in parts.
        if len(rest) > _LINE_BYTES:
            self._read(rest)
            rest = b""
        self._rest = rest

    def finish(self) -> None:
        """Hears that the answer is over."""
        self._read(self._rest)
        self._rest = b""

    def _read(self, data: bytes) -> None:
        for found in _survey(data):
            self._keep(_hash(found))


def _survey(data: bytes) -> Iterator[bytes]:
    yield from _SEALS.findall(data)
    yield from _IDS.findall(data)


class SignatureOrigins:
    """Remembers which provider each seal came from; of too many the oldest is forgotten."""

    def __init__(self, count: int = _KNOWN_COUNT) -> None:
        self._count = count
        self._homes: OrderedDict[bytes, str] = OrderedDict()

    def keep(self, seal: bytes, provider: str) -> None:
        """Remembers where a seal came from."""
        self._homes[seal] = provider
        self._homes.move_to_end(seal)
        if len(self._homes) > self._count:
            self._homes.popitem(last=False)

    def find_home(self, seals: Sequence[bytes]) -> str | None:
        """Returns the provider of the last of the seals that is known; ``None`` if none is."""
        for seal in reversed(seals):
            if (home := self._homes.get(seal)) is not None:
                return home
        return None
