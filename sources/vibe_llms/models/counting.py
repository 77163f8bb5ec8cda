"""Token estimates of requests without asking the vendor: texts, images, and an overhead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister
from vibe_llms.messages.contents import (
    AnyContent,
    CacheHint,
    FileContent,
    ImageContent,
    MediaContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import list_plain_texts
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.pictures import estimate_image
from vibe_llms.models.tokens import TokenCount, count_text, count_texts

MESSAGE_OVERHEAD: Final = TokenCount(tokens=4, error_tokens=4)
"""Tokens that mark the beginning and end of a message: 3 and its role in OpenAI's formats.

OpenAI's cookbook, as quoted at https://mcmap.net/q/271632/, read 2026-11-22.
"""

PRIMING_OVERHEAD: Final = TokenCount(tokens=3, error_tokens=3)
"""Tokens that begin the answer; the same source."""

INVOCABLES_OVERHEAD: Final = TokenCount(tokens=16, error_tokens=384)
"""Tokens of a vendor's own instructions about tools: few for most, some hundred for Anthropic.

A few tokens for OpenAI's models (the cookbook, "How to count tokens"); Anthropic counts 403 tokens
for a small tool and a short question, 14 for a greeting:
https://platform.claude.com/docs/en/build-with-claude/token-counting, read 2026-11-22.
"""

INVOCABLE_OVERHEAD: Final = TokenCount(tokens=12, error_tokens=12)
"""Tokens around the description of one invocable: about those of its JSON syntax."""

_UNKNOWN_MEDIA: Final = TokenCount(tokens=1500, error_tokens=1500)
"""Guess for a document, audio or video whose data are unknown. It may be far too low."""


def estimate_request(request: Request, attributes: ModelAttributes | None = None) -> TokenCount:
    """Estimate the input tokens of a request, including overhead.

    Texts are counted exactly if possible (see :func:`~tokens.count_text`). The vendor's formatting
    of messages is not public, so that the total is never exact.

    Args:
        attributes: Attributes of the model; without them the error is larger.
    """
    overhead = estimate_overhead(request, attributes)
    return overhead + count_canisters(request.canisters, attributes)


def estimate_overhead(request: Request, attributes: ModelAttributes | None = None) -> TokenCount:
    """Estimate the part of a request outside of its canisters."""
    total = PRIMING_OVERHEAD
    if request.invocables:
        total += INVOCABLES_OVERHEAD
    for invocable in request.invocables:
        total += count_invocable(invocable, attributes)
    if request.schema is not None:
        total += count_text(_write(request.schema), attributes).widen(1.0)
    return total


def count_canister(canister: AnyCanister, attributes: ModelAttributes | None) -> TokenCount:
    """Estimate the tokens of one canister, including the overhead of a message."""
    return count_canisters((canister,), attributes)


def count_canisters(
    canisters: Sequence[AnyCanister], attributes: ModelAttributes | None
) -> TokenCount:
    """Estimate the tokens of canisters, including the overhead of their messages."""
    plain_texts = list_plain_texts(canisters, allows_native=True)
    texts = [text for text in plain_texts if text is not None]
    total = TokenCount(tokens=0)
    for canister, text in zip(canisters, plain_texts, strict=True):
        if text is not None:
            continue
        if type(canister) is InvocationCanister:
            texts += (canister.name, canister.arguments)
        for content in canister.content:
            if type(content) is TextualContent or type(content) is RefusalContent:
                texts.append(content.text)
            else:
                total += _count_content(content, attributes)
    overhead = TokenCount(
        tokens=MESSAGE_OVERHEAD.tokens * len(canisters),
        error_tokens=MESSAGE_OVERHEAD.error_tokens * len(canisters),
    )
    return total + overhead + count_texts(texts, attributes)


def _count_content(content: AnyContent, attributes: ModelAttributes | None) -> TokenCount:
    match content:
        case TextualContent() | RefusalContent():
            return count_text(content.text, attributes)
        case ReasoningContent():
            # Not every vendor sends earlier reasoning to the model; a signature hides its length.
            visible = count_text(content.text or "".join(content.summary), attributes)
            max_hidden = len(content.signature or "") // 4 if not content.text else 0
            hidden = TokenCount(tokens=max_hidden // 2, error_tokens=max_hidden // 2 + 1)
            return visible.widen(1.0) + hidden
        case ImageContent():
            rule = attributes.access_value("image_tokens") if attributes else ABSENT
            return estimate_image(content, rule)
        case NativeContent():
            return count_text(content.native.data, attributes).widen(0.5)
        case CacheHint():
            return TokenCount(tokens=0)
        case _:
            return _estimate_media(content, attributes)
    assert_never(content)


def _estimate_media(content: MediaContent, attributes: ModelAttributes | None) -> TokenCount:
    data = content.data
    if data is None:
        return _UNKNOWN_MEDIA
    if isinstance(content, FileContent) and content.mime_type.startswith("text/"):
        return count_text(data.decode("utf-8", "replace"), attributes).widen(0.1)
    return TokenCount(tokens=len(data) // 40, error_tokens=len(data) // 40 + 1)


def count_invocable(
    invocable: InvocableDescription, attributes: ModelAttributes | None
) -> TokenCount:
    """Estimate the tokens of an invocable's description; vendors format it differently.

    Args:
        attributes: Attributes of the model; without them the error is larger.
    """
    texts = [invocable.name, invocable.description]
    if invocable.native is not None:
        texts.append(invocable.native.data)
    if invocable.server_tool is not None:
        options = invocable.server_tool.list_options()
        texts += [str(getattr(invocable.server_tool, option)) for option in options]
    if invocable.schema is not None:
        texts.append(_write(invocable.schema))
    return INVOCABLE_OVERHEAD + count_text("\n".join(texts), attributes).widen(0.4)


def _write(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
