"""Formats of calls that most services share: OpenAI's, and Cohere's for rankings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.dialects.call_quirks import (
    CallQuirks,
    CompletionQuirks,
    EmbeddingQuirks,
    IllustrationQuirks,
    SpeechQuirks,
    TranscriptionQuirks,
)
from vibe_llms.models.genera import Genus

if TYPE_CHECKING:
    from vibe_llms.dialects.calls import CallFormat, LiveFormat

OPENAI: Final = CallQuirks(
    embeddings=EmbeddingQuirks(),
    moderates=True,
    illustrations=IllustrationQuirks(),
    speeches=SpeechQuirks(),
    transcriptions=TranscriptionQuirks(live="openai"),
    completions=CompletionQuirks(
        models=("gpt-3.5-turbo-instruct", "davinci-002", "babbage-002", "ft:davinci", "ft:babbage")
    ),
)
"""The quirks of OpenAI itself.

https://developers.openai.com/api/reference/resources/completions, read 2026-11-29.
"""


def produce_common_format(
    genus: Genus, quirks: CallQuirks, model: str
) -> CallFormat[Any, Any] | None:
    """Return the format of a model's calls for a genus; ``None`` if the service has none.

    The formats are imported when they are needed, as most programs use none of them.
    """
    if genus is Genus.EMBEDDER and quirks.embeddings is not None:
        from vibe_llms.dialects.embeddings import openai as embeddings

        return embeddings.produce_call_format(quirks.embeddings)
    if genus is Genus.RANKER and quirks.rankings is not None:
        from vibe_llms.dialects import rankings

        return rankings.produce_call_format(quirks.rankings)
    if genus is Genus.MODERATOR and quirks.moderates:
        from vibe_llms.dialects.moderations import CALL_FORMAT

        return CALL_FORMAT
    if genus is Genus.ILLUSTRATOR and quirks.illustrations is not None:
        from vibe_llms.dialects.illustrations import openai as illustrations

        return illustrations.produce_call_format(quirks.illustrations)
    if genus is Genus.SPEAKER and quirks.speeches is not None:
        from vibe_llms.dialects.speeches import openai as speeches

        return speeches.produce_call_format(quirks.speeches)
    if genus is Genus.TRANSCRIBER and quirks.transcriptions is not None:
        from vibe_llms.dialects.transcripts import openai as transcripts

        call_format = transcripts.produce_call_format(quirks.transcriptions, model)
        return attrs.evolve(call_format, live=_find_live_format(quirks.transcriptions.live))
    return None


def _find_live_format(service: str) -> LiveFormat[Any, Any] | None:
    """Return the format for audio that is still being recorded, of a service by its name."""
    if service == "openai":
        from vibe_llms.dialects.transcripts import openai_live

        return openai_live.produce_live_format()
    if service == "mistral":
        from vibe_llms.dialects.transcripts import mistral_live

        return mistral_live.produce_live_format()
    return None
