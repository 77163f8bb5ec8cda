"""Formats of calls that most services share: OpenAI's, and Cohere's for rankings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vibe_llms.dialects.call_quirks import CallQuirks, EmbeddingQuirks, IllustrationQuirks
from vibe_llms.models.genera import Genus

if TYPE_CHECKING:
    from vibe_llms.dialects.calls import CallForm

OPENAI: Final = CallQuirks(
    embeddings=EmbeddingQuirks(), moderates=True, illustrations=IllustrationQuirks()
)
"""The quirks of OpenAI itself."""


def produce_common_form(genus: Genus, quirks: CallQuirks) -> CallForm[Any, Any] | None:
    """Return the format of a service's calls for a genus; ``None`` if it has none.

    The formats are imported when they are needed, as most programs use none of them.
    """
    if genus is Genus.EMBEDDER and quirks.embeddings is not None:
        from vibe_llms.dialects.embeddings import openai as embeddings

        return embeddings.produce_form(quirks.embeddings)
    if genus is Genus.RANKER and quirks.rankings is not None:
        from vibe_llms.dialects import rankings

        return rankings.produce_form(quirks.rankings)
    if genus is Genus.MODERATOR and quirks.moderates:
        from vibe_llms.dialects.moderations import FORM

        return FORM
    if genus is Genus.ILLUSTRATOR and quirks.illustrations is not None:
        from vibe_llms.dialects.illustrations import openai as illustrations

        return illustrations.produce_form(quirks.illustrations)
    return None
