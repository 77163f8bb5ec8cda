"""Summaries of a conversation's oldest turns, written by a model in as many calls as necessary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Origin,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import media_of, text_of
from vibe_llms.models.attributes import Capability
from vibe_llms.models.tokens import count_text
from vibe_llms.providers.interfaces import ConverserModel

SUMMARY_TITLE: Final = "Summary of the conversation before this"
SUMMARY_TOKENS: Final = 600
"""Tokens reserved for a summary in a request."""

_INSTRUCTIONS: Final = (
    "You summarize the beginning of a conversation, so that it can go on without it. Keep names, "
    "numbers, decisions, what was found out and what is still open. Write at most 300 words, and "
    "nothing but the summary."
)


@frozen(kw_only=True)
class Summary:
    """A summary that replaces the oldest turns.

    Attributes:
        text: The model's text.
        origins: Origins of the model calls that wrote the summary, with usage; empty for a cached
            summary.
    """

    text: str
    origins: tuple[Origin, ...] = ()

    def describe_usage(self) -> str:
        """Return the usage of these calls, to append to a sentence; empty if unknown."""
        usages = [origin.usage for origin in self.origins if origin.usage is not None]
        input_tokens = sum(usage.total_input_tokens or 0 for usage in usages)
        output_tokens = sum(usage.total_output_tokens or 0 for usage in usages)
        if not (input_tokens or output_tokens):
            return ""
        return f" ({input_tokens:,} tokens in, {output_tokens:,} out)"


async def summarize(
    model: ConverserModel,
    request: Request,
    turns: Sequence[AnyCanister],
    earlier_summary: str,
    tokens: int,
) -> Summary:
    """Let the model summarize turns.

    Args:
        request: The request that contains the turns; provides the model and the conversation's id.
        turns: The turns, oldest first.
        earlier_summary: A summary of earlier turns, which this one replaces; may be empty.
        tokens: Maximum tokens to summarize in one call.

    Raises:
        ConverseError: There is no answer, or it is empty.
    """
    attributes = model.descriptor.attributes
    controls: dict[str, Any] = {}
    reasons = attributes.access_capability("supports_reasoning") is not Capability.NO
    if attributes.access_control("max_tokens") is not None and not reasons:
        controls["max_tokens"] = SUMMARY_TOKENS  # reasoning could spend all tokens
    origins: list[Origin] = []
    for chunk in _divide(turns, tokens):
        context = (
            f"Summary so far:\n\n{earlier_summary}\n\nWhat was said then:\n\n"
            if earlier_summary
            else ""
        )
        question = Request(
            canisters=(SupervisorCanister(_INSTRUCTIONS), UserCanister(f"{context}{chunk}")),
            model=request.model,
            controls=controls,
            conversation_id=request.conversation_id,
        )
        response = await model.converse(question)
        origins.append(response.metadata.origin)
        earlier_summary = response.text.strip()
        if not earlier_summary:
            raise ConverseError(
                detail=f"{model.descriptor} gave an empty summary of the oldest turns.",
                remedy='Drop them instead (window = "drop"), or begin a new conversation.',
                stage=Stage.DECODE,
            )
    return Summary(text=earlier_summary, origins=tuple(origins))


def _divide(canisters: Sequence[AnyCanister], tokens: int) -> Iterator[str]:
    """Yield the turns as texts that fit into one call; longer turns are truncated."""
    chunk, size = "", 0
    for canister in canisters:
        text = _write(canister)
        more = count_text(text).tokens
        if more > tokens:
            text = f"{text[: len(text) * tokens // more]} […]"
            more = tokens
        if chunk and size + more > tokens:
            yield chunk
            chunk, size = "", 0
        chunk += f"{text}\n\n"
        size += more
    if chunk:
        yield chunk


def _write(canister: AnyCanister) -> str:
    text = text_of(canister)
    if isinstance(canister, InvocationCanister):
        text = f"{canister.name}({canister.arguments}) {text}".rstrip()
    media = ", ".join(f"[{item.type} {item.name or ''}]" for item in media_of([canister]))
    return f"{canister.role}: {text} {media}".rstrip()
