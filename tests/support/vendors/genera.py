"""One call of each genus, and clients that make it at the simulator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs

from support.vendors.remoting import produce_context
from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.contents import AudioContent, ImageContent
from vibe_llms.messages.illustrations import IllustrationRequest
from vibe_llms.messages.moderations import ModerationRequest
from vibe_llms.messages.rankings import RankingRequest
from vibe_llms.messages.speeches import SpeechRequest
from vibe_llms.messages.transcripts import TranscriptionRequest
from vibe_llms.messages.vectors import EmbeddingRequest
from vibe_llms.models.genera import Genus
from vibe_llms.providers.deepgram import produce_provider as produce_deepgram
from vibe_llms.providers.openai_compatible import produce_provider as produce_compatible
from vibe_llms.providers.openai_responses import produce_provider as produce_openai
from vibe_llms.testing.simulator.behaviour import produce_png
from vibe_llms.testing.simulator.speech import hide


@attrs.frozen(kw_only=True)
class GenusCase:
    """One call of a genus.

    Attributes:
        genus: The genus.
        provider: Name of the provider.
        factory: Makes the provider.
        base: Path of the provider's base URL.
        model: Name of the model.
        request: The request.
        other: Another request, with another result.
        operation: Operation of the call in OpenTelemetry.
        streams: Whether the vendor streams the result.
    """

    genus: Genus
    provider: str = "openai"
    factory: Callable[..., Any] = produce_openai
    base: str = "/v1"
    model: str
    request: Any
    other: Any
    operation: str
    streams: bool = False

    def produce_provider(
        self,
        directory: Path,
        address: str,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        **settings: Any,
    ) -> Any:
        """Create the provider for an address."""
        context = produce_context(
            self.provider,
            directory,
            clock=clock,
            limits=limits,
            base_url=address + self.base,
            api_key="canary",
            **settings,
        )
        return self.factory(context)


PICTURE: Final = ImageContent(data=produce_png(5, 4))

GENERA: Final = {
    "embedder": GenusCase(
        genus=Genus.EMBEDDER,
        model="text-embedding-3-small",
        request=EmbeddingRequest(texts=("red house", "blue sky")),
        other=EmbeddingRequest(texts=("red house", "blue sky"), dimensions=4),
        operation="embeddings",
    ),
    "ranker": GenusCase(
        genus=Genus.RANKER,
        provider="jina",
        factory=produce_compatible,
        model="jina-reranker-v3",
        request=RankingRequest(query="red sky", texts=("a red house", "the red sky")),
        other=RankingRequest(query="house", texts=("a red house", "the red sky")),
        operation="rerank",
    ),
    "moderator": GenusCase(
        genus=Genus.MODERATOR,
        model="omni-moderation-latest",
        request=ModerationRequest(texts=("hello", "I kill you")),
        other=ModerationRequest(texts=("bye",)),
        operation="moderation",
    ),
    "illustrator": GenusCase(
        genus=Genus.ILLUSTRATOR,
        model="gpt-image-2",
        request=IllustrationRequest(prompt="A house"),
        other=IllustrationRequest(prompt="A house", count=2),
        operation="generate_content",
    ),
    "illustrator that edits": GenusCase(
        genus=Genus.ILLUSTRATOR,
        model="gpt-image-2",
        request=IllustrationRequest(prompt="A house", images=PICTURE),
        other=IllustrationRequest(prompt="A house", images=(PICTURE, PICTURE)),
        operation="generate_content",
    ),
    "speaker": GenusCase(
        genus=Genus.SPEAKER,
        model="gpt-4o-mini-tts",
        request=SpeechRequest(text="The bridge is closed."),
        other=SpeechRequest(text="The bridge is open."),
        operation="generate_content",
        streams=True,
    ),
    "transcriber": GenusCase(
        genus=Genus.TRANSCRIBER,
        model="gpt-4o-transcribe",
        request=TranscriptionRequest(audio=AudioContent(data=hide("The bridge.", "mp3"))),
        other=TranscriptionRequest(audio=AudioContent(data=hide("The sea.", "mp3"))),
        operation="generate_content",
        streams=True,
    ),
    "transcriber of bytes": GenusCase(
        genus=Genus.TRANSCRIBER,
        provider="deepgram",
        factory=produce_deepgram,
        base="",
        model="nova-3",
        request=TranscriptionRequest(audio=AudioContent(data=hide("The bridge.", "mp3"))),
        other=TranscriptionRequest(audio=AudioContent(data=hide("The sea.", "mp3"))),
        operation="generate_content",
    ),
}
"""Cases by name; the bodies of requests are JSON, forms or bytes."""
