"""Pieces of an answer, of which some may be lost, and the answer that is stored."""

from __future__ import annotations

import random
from typing import Any

from vibe_llms.daemons.agents.faces.answers import AnswerFold
from vibe_llms.daemons.agents.faces.steps import PartBegun, PartEnded, PartGrown, PartsWithdrawn
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    StreamEvent,
)
from vibe_llms.messages.canisters import InvocationCanister
from vibe_llms.messages.contents import FileContent, ReasoningContent, TextualContent

CALL = InvocationCanister(invocation_id="c", name="pay", arguments='{"to": "Ann"}')
ITEMS: list[Any] = [
    ReasoningContent(text="Hm. ", summary=("Thought.",)),
    TextualContent("I pay Ann, and then Bob."),
    FileContent(data=b"bill", name="bill.txt"),
    CALL,
    TextualContent("Paid."),
]
TEXTS = ["Hm. Thought.", "I pay Ann, and then Bob.", "", '{"to": "Ann"}', "Paid."]


def compose_pieces() -> list[StreamEvent]:
    """Return all pieces of the answer."""
    pieces: list[StreamEvent] = []
    for index, item in enumerate(ITEMS):
        kind = "invocation" if item is CALL else item.type
        pieces.append(ContentStartedEvent(index=index, kind=kind, name=getattr(item, "name", None)))
        channel: Any = "arguments" if item is CALL else "text"
        text = "Hm. " if index == 0 else TEXTS[index]
        pieces += [ContentDeltaEvent(index, each, channel) for each in text.partition(" ") if each]
        pieces.append(ContentFinishedEvent(index=index, item=item))
    return pieces


def tell(pieces: list[StreamEvent]) -> tuple[list[tuple[str, str]], bool]:
    """Return what a client has in the end, part by part, and whether it was withdrawn once."""
    fold, parts, is_withdrawn, ended = AnswerFold("r.1"), dict[str, list[str]](), False, set[str]()
    steps = [step for piece in pieces for step in fold.feed(piece)]
    for step in [*steps, *fold.end(ITEMS)]:
        match step:
            case PartBegun():
                assert step.id not in parts
                parts[step.id] = [step.kind]
            case PartGrown():
                assert step.id not in ended
                parts[step.id].append(step.text)
            case PartEnded():
                ended.add(step.id)
            case PartsWithdrawn():
                assert not is_withdrawn
                is_withdrawn = True
                parts.clear()
                ended.clear()
    assert ended == {*parts}
    return [(kind, "".join(texts)) for kind, *texts in parts.values()], is_withdrawn


WHOLE = list(zip(["reasoning", "text", "file", "invocation", "text"], TEXTS, strict=True))


def test_all_pieces_are_told_as_they_come() -> None:
    fold = AnswerFold("r.1")
    told = [step for piece in compose_pieces() for step in fold.feed(piece)]
    assert not [*fold.end(ITEMS)]
    assert tell(compose_pieces()) == (WHOLE, False)
    assert [each.text for each in told if isinstance(each, PartGrown)][:3] == [
        "Hm.",
        " ",
        "Thought.",
    ]
    assert fold.calls[CALL.id].id == "r.1.3"


def test_an_answer_without_pieces_is_told_whole() -> None:
    assert tell([]) == (WHOLE, False)


def test_whatever_pieces_are_lost_the_client_has_the_stored_answer() -> None:
    withdrawn = 0
    for seed in range(300):
        dice = random.Random(seed)
        kept = [each for each in compose_pieces() if dice.random() < 0.8]
        told, is_withdrawn = tell(kept)
        assert told == WHOLE, seed
        withdrawn += is_withdrawn
    assert 0 < withdrawn < 300


def test_pieces_cut_off_at_the_end_are_completed_without_a_withdrawal() -> None:
    pieces = compose_pieces()
    for length in range(len(pieces)):
        assert tell(pieces[:length]) == (WHOLE, False)
