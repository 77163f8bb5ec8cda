"""The contract of models that answer calls, held to those that ship, and to broken ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vibe_llms.dialects.speeches.audio import produce_speech
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.illustrations import IllustrationRequest
from vibe_llms.messages.speeches import SpeechRequest
from vibe_llms.messages.transcripts import TranscriptionRequest
from vibe_llms.messages.vectors import EmbeddingRequest
from vibe_llms.models.genera import Genus
from vibe_llms.providers.piece_streams import PieceStream
from vibe_llms.providers.scripted.speaking import TonesSpeaker
from vibe_llms.testing.contracts import CallModelContract
from vibe_llms.testing.contracts.promises import BrokenPromise

SPEECH = SpeechRequest(text="Good morning.")


class _Scripted(CallModelContract):
    module = "vibe_llms.providers.scripted"


class TestWords(_Scripted):
    genus, model = Genus.EMBEDDER, "words"
    request = EmbeddingRequest(texts="a house")
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


@pytest.mark.parametrize(
    ("broken", "test", "word"),
    [
        (_Mute, "test_a_stream_has_the_same_result", "no pieces"),
        (_Deaf, "test_a_strict_call_with_losses_is_refused", "no losses"),
        (_Boundless, "test_the_model_describes_itself", "max_inputs is 0"),
        (_Failing, "test_a_call_returns_a_result_with_its_origin", "raises ValueError"),
    ],
)
def test_a_broken_model_is_told_what_to_do(
    broken: type[TonesSpeaker], test: str, word: str, tmp_path: Path
) -> None:
    class Broken(TestTones):
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
