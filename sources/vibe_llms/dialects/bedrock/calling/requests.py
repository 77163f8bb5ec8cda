"""Translation of a whole request to a vendor.

The path names the model and decides whether the answer is streamed; the body does neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.bedrock.calling.caching import complete_cache_points
from vibe_llms.dialects.bedrock.calling.invocations import complete_tools, nativize_schema
from vibe_llms.dialects.bedrock.quirks import PROTOCOL
from vibe_llms.dialects.bedrock.tables import MODEL_FIELDS, PLACES
from vibe_llms.dialects.broken_requests import explain_missing_message
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.request_paths import look_up, take
from vibe_llms.dialects.request_writing import BodyDraft, RequestWriter
from vibe_llms.messages.canisters import InvocationCanister
from vibe_llms.models.attributes import Capability

_CHOICE: Final = ("toolConfig", "toolChoice")
_FORCED: Final = frozenset({"any", "tool"})


def _compose_body(draft: BodyDraft) -> dict[str, Any]:
    parts, extras, request = draft.parts, draft.extras, draft.request
    body: dict[str, Any] = {**parts.messages, **parts.invocations}
    # Later parts override earlier ones, so the caller's native parameters come last.
    for part in (parts.controls, nativize_schema(request.schema), extras):
        body = merge(body, part)
    if not body.get("messages"):  # there are only instructions
        raise explain_missing_message("canisters")
    _choose_sampling(body, draft)
    if "toolConfig" in body or InvocationCanister in {*map(type, request.canisters)}:
        complete_tools(body, request.invocation_choice, draft.ledger)
    _release_choice(body, draft)
    complete_cache_points(body, request, draft.ledger)
    return body


def _release_choice(body: dict[str, Any], draft: BodyDraft) -> None:
    """Let a model choose whether to call a tool if it cannot be forced to, as while it reasons.

    https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking, read 2026-11-28.
    """
    choice = look_up(body, _CHOICE)
    if not isinstance(choice, Mapping) or not _FORCED & choice.keys():
        return
    capability = draft.attributes.access_capability("supports_forced_invocations")
    reasons = look_up(body, (MODEL_FIELDS, "thinking", "type")) in ("enabled", "adaptive")
    if look_up(draft.extras, _CHOICE) is None and (reasons or capability is Capability.NO):
        take(body, _CHOICE)
        draft.ledger.coerce(
            "invocation_choice", "a model with reasoning cannot be forced to call; auto is sent"
        )


def _choose_sampling(body: dict[str, Any], draft: BodyDraft) -> None:
    """Remove ``topP`` if the model accepts either this parameter or ``temperature``."""
    capability = draft.attributes.access_capability("supports_temperature_with_top_p")
    places = PLACES["temperature"], PLACES["top_p"]
    if capability is not Capability.NO or any(
        look_up(body, place) is None or look_up(draft.extras, place) is not None for place in places
    ):
        return
    take(body, PLACES["top_p"])
    draft.ledger.drop("controls.top_p", "the model accepts this control or temperature, not both")


_WRITER: Final = RequestWriter(
    protocol=PROTOCOL,
    compose_body=_compose_body,
    find_message_options=lambda request, *_: {"continuation": request.continuation},
)
nativize_request = _WRITER.nativize_request
produce_processors = _WRITER.produce_processors
