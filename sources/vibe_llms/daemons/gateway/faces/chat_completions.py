"""OpenAI's Chat Completions."""

from __future__ import annotations

from functools import partial

from vibe_llms.daemons.gateway.asked import Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.service import Route
from vibe_llms.dialects import chat_completions

FACE = Face(
    name="chat_completions",
    dialect=chat_completions,
    passed=("openai-beta", "idempotency-key"),  # whose account pays is ours to say
)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Returns the paths of this protocol."""
    return (
        Route(
            method="POST",
            pattern="/v1/chat/completions",
            handler=partial(gateway.answer, face=FACE),
            write_error=FACE.write_error,
        ),
    )
