"""What a simulated model says when no script tells it: decided by the request, the same every time.

It echoes the user, and does what words in the text ask for: ``call NAME``, ``use tools``,
``think``, ``cite``, ``search``, ``refuse``, ``draw``, ``speak``.
"""

from __future__ import annotations

import json
import re
import struct
import zlib

import attrs

from vibe_llms.testing.simulator.asking import Ask, Offer, count_tokens
from vibe_llms.testing.simulator.fabrication import fabricate
from vibe_llms.testing.simulator.scripts import (
    Cite,
    Draw,
    Invoke,
    Part,
    Refuse,
    Say,
    ScriptedAnswer,
    Search,
    Speak,
    Think,
)

SOURCES = (
    Cite(url="https://example.com/one", title="The first source", quote="One is the first."),
    Cite(url="https://example.com/two", title="The second source", quote="Two follows."),
)
REASONING = "The user asks something. I consider it, and then I answer."


def respond(ask: Ask) -> ScriptedAnswer:
    """Decides what the model says.

    Args:
        ask: What the request asks for.

    Returns:
        An answer that keeps to the limits of the request: its stops, its limit of tokens, its
        choice of tools and its schema.
    """
    parts: list[Part] = []
    if ask.reasons or _mentions(ask.text, "think"):
        parts.append(Think(REASONING))
    if _mentions(ask.text, "refuse") and not ask.outcomes:
        return ScriptedAnswer(parts=(*parts, Refuse("I will not help with that.")))
    calls = _choose_invocations(ask)
    if calls:
        return ScriptedAnswer(parts=(*parts, *calls))
    parts.extend(_answer(ask))
    return confine(ScriptedAnswer(parts=tuple(parts)), ask)


def _mentions(text: str, word: str) -> bool:
    return re.search(rf"\b{word}\b", text, re.IGNORECASE) is not None


def _choose_invocations(ask: Ask) -> list[Part]:
    if ask.demand == "-" or not ask.offers:
        return []
    if ask.outcomes and ask.demand in (None, "*"):
        return []
    chosen = [offer for offer in ask.offers if ask.demand == offer.name]
    if not chosen and ask.demand in (None, "*"):
        chosen = [offer for offer in ask.offers if _mentions(ask.text, f"call {offer.name}")]
        if not chosen and _mentions(ask.text, "use tools"):
            chosen = list(ask.offers)
        if not chosen and ask.demand == "*":
            chosen = [ask.offers[0]]
    return [_invoke(offer) for offer in (chosen if ask.parallel else chosen[:1])]


def _invoke(offer: Offer) -> Part:
    if offer.custom:
        return Invoke(offer.name, "some free text", custom=True)
    arguments = fabricate(offer.schema or {"type": "object"})
    return Invoke(offer.name, arguments if isinstance(arguments, dict) else {})


def _answer(ask: Ask) -> list[Part]:
    if ask.schema is not None:
        return [Say(json.dumps(fabricate(ask.schema or {"type": "object"}), ensure_ascii=False))]
    if ask.outcomes:
        return [Say("; ".join(f"{outcome.name} said: {outcome.text}" for outcome in ask.outcomes))]
    if ask.attachments:
        seen = ", ".join(attachment.describe() for attachment in ask.attachments)
        return [Say(f"I see {seen}.")]
    if ask.searches and _mentions(ask.text, "search"):
        return [Search(ask.text, SOURCES), Say("The web says so.", SOURCES[:1])]
    if _mentions(ask.text, "cite"):
        return [Say("Here is what "), Say("the sources say.", SOURCES)]
    if ask.draws and _mentions(ask.text, "draw"):
        return [Say("Here it is."), Draw(produce_png(2, 3))]
    if ask.speaks:
        return [Speak(produce_wav(800), ask.text or "Hello.")]
    return [Say(ask.text or "Hello.")]


def confine(turn: ScriptedAnswer, ask: Ask) -> ScriptedAnswer:
    """Cuts an answer at the request's stops and at its limit of tokens."""
    parts = list(turn.parts)
    if not parts or not isinstance(parts[-1], Say):
        return turn
    last = parts[-1]
    found = sorted((last.text.find(stop), stop) for stop in ask.stops if stop and stop in last.text)
    if found:
        parts[-1] = attrs.evolve(last, text=last.text[: found[0][0]])
        return attrs.evolve(
            turn, parts=tuple(parts), stop="stop_sequence", stop_sequence=found[0][1]
        )
    if ask.limit is not None and count_tokens(last.text) > ask.limit:
        kept = last.text.encode("utf-8", "replace")[: 4 * ask.limit].decode("utf-8", "ignore")
        parts[-1] = attrs.evolve(last, text=kept)
        return attrs.evolve(turn, parts=tuple(parts), stop="length")
    return turn


def produce_png(width: int, height: int) -> bytes:
    """The bytes of a small picture in one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\x00" + b"\x20\x80\xc0" * width) * height
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def produce_wav(samples: int) -> bytes:
    """The bytes of a short silence, 8 kHz, mono, 8 bits."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    data = struct.pack("<4sI", b"data", samples) + b"\x80" * samples
    return struct.pack("<4sI", b"RIFF", 4 + len(form) + len(data)) + b"WAVE" + form + data
