"""Secrets found in every form that they travel in, and struck out."""

from __future__ import annotations

import base64
import bisect
import re
from collections.abc import Iterable, Sequence

from vibe_llms.secrets import HIDDEN, KEY_SHAPES, Secret

LEAST_CHARACTERS = 4
"""A secret shorter than this is none: struck out everywhere, it would leave no text readable."""
STRUCK = HIDDEN.encode()


class Scrubber:
    """Strikes secrets out of bytes.

    A secret is found as it is, escaped for JSON (once, or several times over, each character in
    its own way), quoted for a URL, in base64 of either alphabet at any place of what was
    encoded, and in hexadecimal digits; and so is whatever has the shape of a vendor's key.
    """

    def __init__(self, secrets: Iterable[Secret | str] = ()) -> None:
        self._texts: list[str] = []
        self._pattern = KEY_SHAPES
        self.add(*secrets)

    def add(self, *secrets: Secret | str) -> None:
        """Makes more secrets known; those of fewer than four characters are none."""
        for secret in secrets:
            text = secret.reveal() if isinstance(secret, Secret) else secret
            # A key that was read with the end of its line may be shown without it.
            for form in {text, text.strip()}:
                if len(form) >= LEAST_CHARACTERS and form not in self._texts:
                    self._texts.append(form)
        # The first that fits is taken: of two that begin alike it has to be the longer.
        ordered = sorted(self._texts, key=len, reverse=True)
        known = [form for text in ordered for form in _list_forms(text)]
        self._pattern = re.compile(b"|".join([*known, KEY_SHAPES.pattern]))

    def scrub(self, data: bytes) -> bytes:
        """Strikes out all secrets."""
        return self.scrub_pieces([data])[0] if data else data

    def scrub_text(self, text: str) -> str:
        """Strikes out all secrets."""
        return self.scrub(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def scrub_pieces(self, pieces: Sequence[bytes]) -> list[bytes]:
        """Strikes out all secrets, those too that lie across the boundaries of pieces.

        Returns:
            As many pieces; what replaces a secret is in the piece where the secret began.
        """
        data = b"".join(pieces)
        ends: list[int] = []
        for piece in pieces:
            ends.append((ends[-1] if ends else 0) + len(piece))
        scrubbed: list[list[bytes]] = [[] for _ in pieces]
        at = 0
        for start, end in [*self._find(data), (len(data), len(data))]:
            while at < start:
                place = bisect.bisect_right(ends, at)
                until = min(start, ends[place])
                scrubbed[place].append(data[at:until])
                at = until
            if start < end:
                scrubbed[bisect.bisect_right(ends, start)].append(STRUCK)
                at = end
        return [b"".join(parts) for parts in scrubbed]

    def _find(self, data: bytes) -> list[tuple[int, int]]:
        """The spans of secrets, those joined that touch or overlap."""
        spans: list[tuple[int, int]] = []
        at = 0
        while (match := self._pattern.search(data, at)) is not None:
            start, end = match.span()
            if spans and start <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((start, end))
            # Another secret may begin within the end of this one.
            at = max(start + 1, end - LEAST_CHARACTERS) if end > start else end + 1
        return spans


def _list_forms(text: str) -> list[bytes]:
    data = text.encode("utf-8", "surrogatepass")
    forms = [b"".join(_match_character(character) for character in text)]
    forms.append(b"(?i:" + data.hex().encode() + b")")
    forms.extend(_list_base64_forms(data))
    return forms


def _match_character(character: str) -> bytes:
    """All ways to write a character: as it is, escaped for JSON, or quoted for a URL."""
    data = character.encode("utf-8", "surrogatepass")
    quoted = b"".join(b"%%%02x" % byte for byte in data)
    units = character.encode("utf-16-be", "surrogatepass")
    escaped = b"".join(
        rb"\\+u" + units[at : at + 2].hex().encode() for at in range(0, len(units), 2)
    )
    ways = [rb"\\*" + re.escape(data), b"(?i:" + quoted + b")", b"(?i:" + escaped + b")"]
    short = {"\n": b"n", "\r": b"r", "\t": b"t", "\b": b"b", "\f": b"f"}.get(character)
    if short:
        ways.append(rb"\\+" + short)
    if character == " ":
        ways.append(rb"\+")
    if character == "\\":
        ways.append(rb"\\+")
    return b"(?:" + b"|".join(ways) + b")"


def _list_base64_forms(data: bytes) -> list[bytes]:
    """The digits that depend on the secret alone, whatever stands before and after it."""
    forms = []
    for before in range(3):
        padded = b"\x00" * before + data
        digits = base64.b64encode(padded + b"\x00" * (-len(padded) % 3))
        # Digits at both ends hold bits of what stands beside the secret: which, nobody knows.
        first = -(-before * 8 // 6)
        last = len(padded) * 8 // 6
        core = digits[first:last]
        if len(core) >= LEAST_CHARACTERS:
            either = re.escape(core).replace(rb"\+", rb"(?:\+|-|%2[bB])")
            either = either.replace(b"/", rb"(?:\\*/|_|%2[fF])").replace(rb"\/", b"/")
            tail = rb"[A-Za-z0-9+/_-]?(?:=|%3[dD]){0,2}"
            head = b"" if before == 0 else rb"[A-Za-z0-9+/_-]?"
            forms.append(head + either + tail)
    return forms
