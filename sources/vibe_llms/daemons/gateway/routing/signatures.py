"""Signatures that only one provider accepts: signed or encrypted reasoning, ids of stored objects.

An answer may contain a signature, and a later request returns it. That request must go to the
provider of the answer, which is looked up by a hash of the signature. Each worker process has a
separate table.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

from vibe_llms.dialects.signatures import MARK, read_provider

_MAX_SIGNATURES: Final = 65_536
_LINE_BYTES: Final = 4_194_304

_JSON_TEXT: Final = rb'\s*:\s*"((?:[^"\\]|\\.)+)"'
_SIGNATURES: Final = re.compile(
    rb'"(?:signature|encrypted_content|thoughtSignature|thought_signature|previous_response_id'
    rb"|file_id|fileUri|file_uri|container)\"" + _JSON_TEXT
)
"""Fields of all protocols whose text belongs to one provider. In a user's text the quotes are
escaped, so the text does not match."""

_MARK: Final = MARK.encode()
_ENVELOPES: Final = re.compile(_MARK + rb"[A-Za-z0-9+/_-]*")

_IDS: Final = re.compile(rb'"(?:id|name)"\s*:\s*"((?:resp|file|container|conv|files)[-_/][^"\\]+)"')
"""Ids of objects that the upstream stores and later requests refer to."""


def find_signatures(data: bytes) -> list[bytes]:
    """Return the hashes of the signatures in a request.

    Envelopes, in which the gateway wraps signatures of other vendors, are ignored: an envelope is
    unwrapped only for the vendor of the signature, so any target may answer.
    """
    return [_hash(found) for found in _SIGNATURES.findall(data) if not found.startswith(_MARK)]


def find_provider(data: bytes) -> str:
    """Return the provider of the last envelope in a request; empty without one."""
    envelopes = _ENVELOPES.findall(data)
    return read_provider(envelopes[-1].decode()) if envelopes else ""


def _hash(text: bytes) -> bytes:
    if b"\\" in text:  # escapes can be written in several ways
        with contextlib.suppress(ValueError):
            text = json.loads(b'"' + text + b'"').encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=12).digest()


class SignatureReader:
    """Extracts the signatures of an answer from its bytes.

    Args:
        on_signature: Called with the hash of each signature.
    """

    def __init__(self, on_signature: Callable[[bytes], None]) -> None:
        self._on_signature = on_signature
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Read a piece of the answer."""
        complete_lines, newline, incomplete_line = (self._rest + data).rpartition(b"\n")
        if newline:
            self._read(complete_lines)
        # Very long lines are read in parts.
        if len(incomplete_line) > _LINE_BYTES:
            self._read(incomplete_line)
            incomplete_line = b""
        self._rest = incomplete_line

    def finish(self) -> None:
        """Read the rest, at the end of the answer."""
        self._read(self._rest)
        self._rest = b""

    def _read(self, data: bytes) -> None:
        for found in _survey(data):
            self._on_signature(_hash(found))


def _survey(data: bytes) -> Iterator[bytes]:
    yield from _SIGNATURES.findall(data)
    yield from _IDS.findall(data)


class SignatureOrigins:
    """LRU cache: from the hash of a signature to the provider that it came from."""

    def __init__(self, count: int = _MAX_SIGNATURES) -> None:
        self._count = count
        self._providers: OrderedDict[bytes, str] = OrderedDict()

    def add(self, signature: bytes, provider: str) -> None:
        """Store the provider of a signature."""
        self._providers[signature] = provider
        self._providers.move_to_end(signature)
        if len(self._providers) > self._count:
            self._providers.popitem(last=False)

    def find_origin(self, signatures: Sequence[bytes]) -> str | None:
        """Return the provider of the last known signature; ``None`` if all are unknown."""
        for signature in reversed(signatures):
            if (provider := self._providers.get(signature)) is not None:
                return provider
        return None
