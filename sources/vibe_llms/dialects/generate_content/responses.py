"""A response as the body that this protocol answers with: what a gateway says to its client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.dialects.generate_content.grounding import write_grounding
from vibe_llms.dialects.generate_content.messages import ContentsWriter
from vibe_llms.dialects.generate_content.parts import PartsWriter
from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.generate_content.stops import nativize_stop, normalize_stop
from vibe_llms.dialects.generate_content.usage import nativize_usage
from vibe_llms.dialects.history import Placed
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.residues import merge
from vibe_llms.dialects.stops import keeps_word, tell_stop
from vibe_llms.messages.canisters import AssistantCanister, Origin
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Response
from vibe_llms.plain import JsonObject


def nativize_response(response: Response) -> Translation[JsonObject]:
    """Returns the whole body of a response, whoever gave it, and what it could not carry.

    For what came in this protocol it is the inverse of decoding, in meaning.
    """
    ledger = Ledger(protocol=PROTOCOL)
    origin = response.metadata.origin
    is_ours = origin.protocol == PROTOCOL
    parts = _write_parts(response, ledger)
    rest = ledger.open(response.metadata.native, "response")
    first, *others = rest.pop("candidates", [{}])
    reason = _find_reason(origin, parts, ledger)
    body: dict[str, Any] = {}
    blocked = (rest.get("promptFeedback") or {}).get("blockReason")
    if parts or not blocked or blocked != reason:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}}
        candidate |= {} if reason is None else {"finishReason": reason}
        grounding = {} if is_ours else write_grounding(_find_texts(response))
        if grounding:
            candidate["groundingMetadata"] = grounding
        body["candidates"] = [merge(candidate, first), *others]
    if origin.usage is not None:
        body["usageMetadata"] = nativize_usage(origin.usage, is_ours=is_ours)
    body["modelVersion"] = origin.model
    if origin.response_id:
        body["responseId"] = origin.response_id
    return Translation(merge(body, rest), ledger.losses)


def _find_reason(origin: Origin, parts: Sequence[Mapping[str, Any]], ledger: Ledger) -> str | None:
    if keeps_word(origin, PROTOCOL):
        return origin.native_stop_reason
    word = nativize_stop(origin.stop_reason)
    calls = any("functionCall" in part for part in parts)
    tell_stop(origin, word, normalize_stop(word, calls=calls), ledger)
    return word


def _write_parts(response: Response, ledger: Ledger) -> list[dict[str, Any]]:
    parts = PartsWriter(attributes=None, quirks=Quirks(), ledger=ledger, shows_reasoning=True)
    writer = ContentsWriter(parts=parts)
    for index, canister in enumerate(response.canisters):
        writer.write(Placed(canister, f"canisters[{index}]"))
    return [part for content in writer.contents for part in content.parts]


def _find_texts(response: Response) -> list[tuple[int, TextualContent]]:
    """Returns the texts with the places that they have among the parts, roughly: in order."""
    contents = [
        content
        for canister in response.canisters
        for content in (canister.content if isinstance(canister, AssistantCanister) else (None,))
    ]
    return [(i, each) for i, each in enumerate(contents) if isinstance(each, TextualContent)]
