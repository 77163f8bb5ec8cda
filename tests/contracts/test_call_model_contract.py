"""The contract of models that answer calls, held to those that ship, and to broken ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest

from vibe_llms.dialects.calls import produce_origin
from vibe_llms.dialects.speeches.audio import produce_speech
from vibe_llms.exceptions import ProviderError
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.illustrations import IllustrationRequest
from vibe_llms.messages.rankings import Ranking, RankingRequest, rank
from vibe_llms.messages.speeches import LiveSpeechRequest, SpeechRequest
from vibe_llms.messages.transcripts import (
    LiveTranscriptionRequest,
    Transcript,
    TranscriptionRequest,
)
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors, split_vectors
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.genera import Genus
from vibe_llms.providers.piece_streams import PieceStream
from vibe_llms.providers.scripted.embedding import WordsEmbedder
from vibe_llms.providers.scripted.speaking import NotesTranscriber, TonesSpeaker
from vibe_llms.testing.contracts import CallModelContract
from vibe_llms.testing.contracts.promises import BrokenPromise
from vibe_llms.testing.simulator import SynchronousSimulator
from vibe_llms.testing.simulator.calls import score
from vibe_llms.testing.simulator.speech import hide

SPEECH = SpeechRequest(text="Good morning.")
SAMPLES = LiveTranscriptionRequest(mime_type="audio/pcm", sample_rate=24_000)


class _Scripted(CallModelContract):
    module = "vibe_llms.providers.scripted"


class TestWords(_Scripted):
    genus, model = Genus.EMBEDDER, "words"
    request = EmbeddingRequest(texts="a house", dimensions=12)
    lossy_request = EmbeddingRequest(texts="a house", purpose="query")


class TestSquares(_Scripted):
    genus, model = Genus.ILLUSTRATOR, "squares"
    request = IllustrationRequest(prompt="A house")
    lossy_request = IllustrationRequest(prompt="A house", quality="high")


class TestTones(_Scripted):
    genus, model = Genus.SPEAKER, "tones"
    request = SPEECH
    lossy_request = SpeechRequest(text="Good morning.", voice="x")


class TestNotes(_Scripted):
    genus, model = Genus.TRANSCRIBER, "notes"
    request = TranscriptionRequest(audio=AudioContent(data=b"\0\x80" * 480))
    lossy_request = TranscriptionRequest(audio=AudioContent(data=b"\0" * 960), translates=True)
    live_request = SAMPLES
    live_pieces = tuple(
        b"".join(bytes((0, byte ^ 0x80)) * 240 for byte in text) for text in (b"a b c", b" d")
    )


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Address of simulated vendors."""
    with SynchronousSimulator() as vendor:
        yield vendor.url


class _Simulated(CallModelContract):
    """Models over the network."""

    base = "/v1"

    @pytest.fixture(autouse=True)
    def _find_vendor(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = {"base_url": address + self.base, "api_key": "any", **self.settings}
        monkeypatch.setattr(type(self), "settings", settings)


class TestNetworkEmbedder(_Simulated):
    module = "vibe_llms.providers.openai_responses"
    genus, model = Genus.EMBEDDER, "text-embedding-3-small"
    request = EmbeddingRequest(texts=("red house", "blue sky"), dimensions=5)
    lossy_request = EmbeddingRequest(texts="a house", purpose="query")


class TestTitanEmbedder(_Simulated):
    module = "vibe_llms.providers.bedrock"
    base = ""
    genus, model = Genus.EMBEDDER, "amazon.titan-embed-text-v2:0"
    request = EmbeddingRequest(texts="red house", dimensions=5)
    lossy_request = EmbeddingRequest(texts="a house", purpose="query")


class TestCohereEmbedderOfBedrock(_Simulated):
    module = "vibe_llms.providers.bedrock"
    base = ""
    genus, model = Genus.EMBEDDER, "us.cohere.embed-v4:0"
    request = EmbeddingRequest(texts=("red house", "blue sky"), dimensions=5, purpose="passage")
    lossy_request = EmbeddingRequest(texts="a house")
    reports_usage = False


class TestNetworkRanker(_Simulated):
    module, name = "vibe_llms.providers.openai_compatible", "jina"
    genus, model = Genus.RANKER, "jina-reranker-v3"
    request = RankingRequest(query="red sky", texts=("a red house", "the red sky"))


class TestNetworkSpeaker(_Simulated):
    module = "vibe_llms.providers.openai_responses"
    genus, model = Genus.SPEAKER, "gpt-4o-mini-tts"
    request = SPEECH
    reports_usage = False


class TestNetworkTranscriber(_Simulated):
    module = "vibe_llms.providers.deepgram"
    base = ""
    genus, model = Genus.TRANSCRIBER, "nova-3"
    request = TranscriptionRequest(audio=AudioContent(data=hide("The bridge.", "mp3")))
    live_request = SAMPLES
    live_pieces = (b"The bridge ", b"is closed.")
    reports_usage = False


class TestSessionTranscriber(_Simulated):
    module = "vibe_llms.providers.openai_responses"
    genus, model = Genus.TRANSCRIBER, "gpt-4o-transcribe"
    request = TranscriptionRequest(audio=AudioContent(data=hide("The bridge.", "mp3")))
    live_request = SAMPLES
    live_pieces = (b"Closed. It", b" is!")


class TestLiveSpeaker(_Simulated):
    module = "vibe_llms.providers.elevenlabs"
    base = ""
    genus, model = Genus.SPEAKER, "eleven_flash_v2_5"
    request = SPEECH
    lossy_request = SpeechRequest(text="Good morning.", instructions="sad")
    live_request = LiveSpeechRequest()
    live_pieces = ("The bridge is closed. Turn", " around.")
    reports_usage = False


class _Late(NotesTranscriber):
    def stream_live(self, request: LiveTranscriptionRequest, pieces: Any) -> Any:
        async def hear() -> Any:
            async for _ in pieces:
                pass
            yield "late"

        return PieceStream(hear())


class _Greedy(NotesTranscriber):
    tasks: ClassVar[list[asyncio.Task[None]]] = []

    def stream_live(self, request: LiveTranscriptionRequest, pieces: Any) -> Any:
        async def read() -> None:
            async for _ in pieces:
                pass

        async def hear() -> Any:
            self.tasks.append(asyncio.create_task(read()))
            yield "early"
            origin = produce_origin(self.descriptor, "p", None)
            yield Transcript(text="early", origin=origin)

        return PieceStream(hear())


class _Unmarked(NotesTranscriber):
    def stream_live(self, request: LiveTranscriptionRequest, pieces: Any) -> Any:
        async def hear() -> Any:
            async with super(_Unmarked, self).stream_live(request, pieces) as stream:
                async for text in stream:
                    yield text if isinstance(text, str) else text.text
                yield await stream.result()

        return PieceStream(hear())


class _Certain(NotesTranscriber):
    def stream_live(self, request: LiveTranscriptionRequest, pieces: Any) -> Any:
        return super().stream_live(attrs.evolve(request, interim=False), pieces)


class _Mute(TonesSpeaker):
    def stream(self, request: SpeechRequest) -> Any:
        async def play() -> Any:
            yield produce_speech(b"a", "audio/wav", request, self.descriptor, "p")

        return PieceStream(play())


class _Deaf(TonesSpeaker):
    async def call(self, request: SpeechRequest) -> Any:
        return produce_speech(b"a", "audio/wav", request, self.descriptor, "p")


class _Boundless(TonesSpeaker):
    max_inputs = 0


class _Failing(TonesSpeaker):
    async def call(self, request: SpeechRequest) -> Any:
        raise ValueError("no")


class _Few(WordsEmbedder):
    async def call(self, request: EmbeddingRequest) -> Vectors:
        if len(request.texts) > 10:
            raise ProviderError(detail="Too many inputs.")
        return await super().call(request)


class _Jumbled(WordsEmbedder):
    async def call(self, request: EmbeddingRequest) -> Vectors:
        vectors = await super().call(request)
        rows = [row.data for row in split_vectors(vectors)]
        return attrs.evolve(vectors, data=b"".join(reversed(rows)))


class _Narrow(WordsEmbedder):
    async def call(self, request: EmbeddingRequest) -> Vectors:
        return await super().call(attrs.evolve(request, dimensions=3))


class _Silent(WordsEmbedder):
    async def call(self, request: EmbeddingRequest) -> Vectors:
        vectors = await super().call(request)
        return attrs.evolve(vectors, origin=attrs.evolve(vectors.origin, usage=None))


class _Backward:
    """A ranker whose indices are those of other texts."""

    max_inputs, max_bytes = 100, 100_000

    def __init__(self, descriptor: ModelDescriptor) -> None:
        self.descriptor = descriptor

    def score(self, request: RankingRequest) -> list[tuple[int, float]]:
        scores = [score(request.query, text) for text in request.texts]
        return list(enumerate(reversed(scores)))

    async def call(self, request: RankingRequest) -> Ranking:
        origin = produce_origin(self.descriptor, "p", Usage(input_tokens=1))
        return Ranking(ranked=rank(self.score(request), request), origin=origin)


class _Forgetful(_Backward):
    def score(self, request: RankingRequest) -> list[tuple[int, float]]:
        return [(index, score(request.query, text)) for index, text in enumerate(request.texts)][:5]


@pytest.mark.parametrize(
    ("contract", "broken", "test", "word"),
    [
        (TestTones, _Mute, "test_a_stream_has_the_same_result", "no pieces"),
        (TestTones, _Deaf, "test_a_strict_call_with_losses_is_refused", "no losses"),
        (TestTones, _Boundless, "test_the_model_describes_itself", "max_inputs is 0"),
        (TestTones, _Failing, "test_a_call_returns_a_result_with_its_origin", "raises ValueError"),
        (TestWords, _Silent, "test_a_call_returns_a_result_with_its_origin", "usage is missing"),
        (TestWords, _Few, "test_many_texts_have_results_in_their_order", "64 texts fails"),
        (
            TestWords,
            _Jumbled,
            "test_many_texts_have_results_in_their_order",
            "vector at 0 is",
        ),
        (TestWords, _Narrow, "test_vectors_have_the_requested_length", "have 3 dimensions, not 12"),
        (
            TestNetworkRanker,
            _Backward,
            "test_many_texts_have_results_in_their_order",
            "worse alone than the query",
        ),
        (TestNotes, _Late, "test_live_input_is_answered_as_it_arrives", "before the end"),
        (TestNotes, _Unmarked, "test_text_that_may_change_is_marked", "texts are 'a b cc dd'"),
        (TestNotes, _Certain, "test_text_that_may_change_is_marked", "without a loss"),
        (TestNotes, _Greedy, "test_leaving_a_live_call_stops_its_input", "still read"),
        (TestNetworkRanker, _Forgetful, "test_many_texts_have_results_in_their_order", "lacks"),
    ],
)
def test_a_broken_model_is_told_what_to_do(
    contract: type[CallModelContract],
    broken: Any,
    test: str,
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if broken is _Late:
        monkeypatch.setattr("vibe_llms.testing.contracts.live_inputs._SECONDS", 0.05)

    class Broken(contract):  # type: ignore[misc, valid-type]
        settings: ClassVar[dict[str, Any]] = {}

        def produce_client(self, directory: Path) -> Any:
            client = super().produce_client(directory)

            class Client:
                async def access(self, name: str, genus: Genus) -> Any:
                    return broken((await client.access(name, genus)).descriptor)

                async def close(self) -> None:
                    await client.close()

            return Client()

    with pytest.raises(BrokenPromise, match=word):
        getattr(Broken(), test)(tmp_path)


def test_the_order_of_many_texts_costs_few_calls(tmp_path: Path) -> None:
    """A vendor charges for each call."""
    counts: list[int] = []

    class Counting(WordsEmbedder):
        async def call(self, request: EmbeddingRequest) -> Vectors:
            counts.append(len(request.texts))
            return await super().call(request)

    class Counted(TestWords):
        def produce_client(self, directory: Path) -> Any:
            client = super().produce_client(directory)

            class Client:
                async def access(self, name: str, genus: Genus) -> Any:
                    return Counting((await client.access(name, genus)).descriptor)

                async def close(self) -> None:
                    await client.close()

            return Client()

    Counted().test_many_texts_have_results_in_their_order(tmp_path)

    assert counts == [64, 1, 1, 1]
