"""Models of other genera are guarded, too; but not moderators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.guards.guarding import CARD, WordSpy, activate, produce_application
from vibe_llms.exceptions import CapabilityError, GuardError, TranslationLossError
from vibe_llms.guards.calls import GuardedCallModel
from vibe_llms.guards.guarding import guard
from vibe_llms.messages.canisters import Origin
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.illustrations import IllustrationRequest
from vibe_llms.messages.rankings import RankingRequest
from vibe_llms.messages.speeches import SpeechRequest
from vibe_llms.messages.transcripts import Transcript, TranscriptionRequest, TranscriptPart
from vibe_llms.messages.vectors import EmbeddingRequest
from vibe_llms.models.genera import Genus

AUDIO = AudioContent(data=b"RIFF", mime_type="audio/wav")
REQUESTS = {
    Genus.EMBEDDER: EmbeddingRequest(texts=("fig", "a walnut")),
    Genus.RANKER: RankingRequest(query="walnut?", texts=("fig", "walnut")),
    Genus.ILLUSTRATOR: IllustrationRequest(prompt="a walnut"),
    Genus.SPEAKER: SpeechRequest(text="walnut", instructions="like a walnut"),
    Genus.TRANSCRIBER: TranscriptionRequest(audio=AUDIO, prompt="walnut"),
}


class FakeModel:
    """Records its request, and answers with a transcript."""

    descriptor = "x:m"
    max_inputs = 7
    max_bytes = 900

    def __init__(self) -> None:
        self.requests: list[Any] = []

    async def call(self, request: Any) -> Transcript:
        """Return the transcript."""
        self.requests.append(request)
        part = TranscriptPart(start=0, end=1, text="a walnut")
        origin = Origin(provider="x", model="m")
        return Transcript(text="a walnut", segments=(part,), words=(part,), origin=origin)


@pytest.mark.parametrize("genus", REQUESTS)
async def test_all_texts_of_a_request_are_marked(genus: Genus) -> None:
    fake: Any = FakeModel()
    model = guard(fake, genus, [activate(WordSpy(), "request")])

    result = await model.call(REQUESTS[genus])

    assert "walnut" not in repr(fake.requests)
    assert "[nut]" in repr(fake.requests)
    assert "the guard 'spy' replaced a nut" in repr(result.losses)
    assert (model.max_inputs, model.max_bytes, model.descriptor) == (7, 900, "x:m")


async def test_a_transcript_is_marked_at_once_and_as_a_stream() -> None:
    """Its parts may have the rest of what was replaced."""
    fake: Any = FakeModel()
    model: Any = guard(fake, Genus.TRANSCRIBER, [activate(WordSpy(), "answer")])
    request = REQUESTS[Genus.TRANSCRIBER]

    result = await model.call(request)
    async with model.stream(request) as stream:
        pieces = [piece async for piece in stream]
        streamed = await stream.result()

    assert result == streamed
    assert (result.text, result.segments, result.words) == ("a [nut]", (), ())
    assert pieces == ["a [nut]"]


async def test_a_strict_call_is_refused_rather_than_changed() -> None:
    fake: Any = FakeModel()
    model = guard(fake, Genus.EMBEDDER, [activate(WordSpy())])

    with pytest.raises(TranslationLossError):
        await model.call(EmbeddingRequest(texts=("walnut",), strict=True))


def test_a_moderator_must_see_what_is_harmful() -> None:
    fake: Any = FakeModel()

    assert guard(fake, Genus.MODERATOR, [activate(WordSpy())]) is fake


def test_a_batch_is_refused() -> None:
    fake: Any = FakeModel()
    model: Any = guard(fake, Genus.EMBEDDER, [activate(WordSpy())])

    with pytest.raises(CapabilityError, match="Guards examine"):
        model.produce_batches()


async def test_the_application_guards_its_embedders(tmp_path: Path) -> None:
    tables = '[guards.privacy]\nkind = "secrets"\naction = "refuse"\n'
    application = produce_application(tmp_path, tables)

    model = await application.access(Genus.EMBEDDER, "scripted:words")

    assert isinstance(model, GuardedCallModel)
    with pytest.raises(GuardError):
        await model.call(EmbeddingRequest(texts=(CARD,)))
    unguarded = await application._access_unguarded("embedder", "scripted:words")
    assert unguarded is model.unguarded
