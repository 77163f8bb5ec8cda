"""Translation of a whole request to a vendor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from vibe_llms.dialects.broken_requests import explain_missing_message
from vibe_llms.dialects.extras import AS_IT_IS, join_fields, merge, without
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.calling.caching import complete_cache_marks
from vibe_llms.dialects.messages.calling.invocations import nativize_schema
from vibe_llms.dialects.messages.calling.preserved_reasoning import drop_stale_reasoning
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.request_writing import BodyDraft, RequestWriter
from vibe_llms.exceptions import ControlError
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.models.attributes import Capability

_FORCED: Final = ("any", "tool")
"""Choices that force a tool call."""

_SAMPLING: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "temperature": (lambda value: bool(value == 1), "only temperature 1"),
    "top_p": (lambda value: bool(value >= 0.95), "only a top_p of at least 0.95"),
    "top_k": (lambda value: False, "no top_k"),
}
"""For each control, whether a value is allowed while the model thinks, and the rule in words."""

_JOINED: Final = ("betas", "mcp_servers")
"""Lists of a request to which server tools and the caller's native fields contribute."""

_DEFAULT_ANSWER_TOKENS: Final = 4096
"""Maximum answer if neither the request nor the model's attributes set one."""


def _compose_body(draft: BodyDraft) -> dict[str, Any]:
    parts, extras = draft.parts, draft.extras
    body: dict[str, Any] = {"model": draft.attributes.address.name or draft.request.model}
    keeps_schema = extras.get(AS_IT_IS)  # requested by a client of this protocol
    schema = nativize_schema(draft.request.schema, None if keeps_schema else draft.ledger)
    # Later parts override earlier ones, so the caller's native parameters come last.
    # The caller's beta features and MCP servers join those of server tools.
    shared = {name: parts.invocations[name] for name in _JOINED if name in parts.invocations}
    if shared:
        extras = join_fields(shared, extras)
    for part in (parts.controls, parts.invocations, schema, parts.messages, extras):
        if part:
            body = merge(body, part)
    if not body.get("messages"):  # there are only instructions
        raise explain_missing_message("canisters")
    if not _can(draft, "supports_edited_reasoning"):
        body = drop_stale_reasoning(body)
    _complete_choice(body, extras.get("tool_choice"), draft)
    _complete_limit(body, draft)
    if _thinks(body):
        _remove_sampling(body, extras, draft.ledger)
        _check_budget(body, extras)
    elif {"temperature", "top_p"} <= body.keys() - extras.keys() and not _can(
        draft, "supports_temperature_with_top_p"
    ):
        del body["top_p"]
        draft.ledger.drop(
            "controls.top_p", "the model accepts this control or temperature, not both"
        )
    if draft.streaming:
        body["stream"] = True
    complete_cache_marks(body, draft.request, draft.ledger)
    return body


def _complete_choice(body: dict[str, Any], client_choice: Any, draft: BodyDraft) -> None:
    """Complete the tool choice, so that the vendor accepts it.

    Args:
        client_choice: The native tool choice of a client, if there is one.
    """
    choice, ledger = body.get("tool_choice"), draft.ledger
    if not choice or not isinstance(choice, Mapping):
        return
    if client_choice is None and not body.get("tools"):
        del body["tool_choice"]
        ledger.drop("controls.parallel_invocations", "the request has no invocables")
    elif choice.get("type", "auto") == "none" and "disable_parallel_tool_use" in choice:
        body["tool_choice"] = {"type": "none"}
        ledger.drop("controls.parallel_invocations", "no invocable may be called")
    elif (
        client_choice is None
        and choice.get("type") in _FORCED
        and (_thinks(body) or not _can(draft, "supports_forced_invocations"))
    ):
        # "Thinking may not be enabled when tool_choice forces tool use":
        # https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking, read 2026-11-28.
        body["tool_choice"] = {**without(choice, "name"), "type": "auto"}
        ledger.coerce(
            "invocation_choice", "a model with reasoning cannot be forced to call; auto is sent"
        )
    else:
        body["tool_choice"] = {"type": "auto", **choice}


def _thinks(body: Mapping[str, Any]) -> bool:
    thinking = body.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") in ("enabled", "adaptive")


def _can(draft: BodyDraft, capability: str) -> bool:
    """Return whether a model has a capability; unless its attributes deny it, it has."""
    return draft.attributes.access_capability(capability) is not Capability.NO


def _remove_sampling(body: dict[str, Any], extras: Mapping[str, Any], ledger: Ledger) -> None:
    """Remove sampling parameters that a thinking model accepts only with their defaults.

    "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode":
    https://platform.claude.com/docs/en/build-with-claude/extended-thinking, read 2026-11-28.
    """
    for name, (is_accepted, rule) in _SAMPLING.items():
        if name in body and name not in extras and not is_accepted(body[name]):
            del body[name]
            ledger.drop(f"controls.{name}", f"a model with reasoning accepts {rule}")


def _check_budget(body: Mapping[str, Any], extras: Mapping[str, Any]) -> None:
    """Reject a maximum answer that thinking could use up. With tools, thinking may exceed it."""
    budget, limit = body["thinking"].get("budget_tokens", 0), body["max_tokens"]
    if body.get("tools") or "thinking" in extras or "max_tokens" in extras or budget < limit:
        return
    raise ControlError(
        control="reasoning_budget_tokens",
        path="controls.reasoning_budget_tokens",
        detail="The value at controls.reasoning_budget_tokens must be less than max_tokens, "
        f"{limit}, not {budget}: reasoning is a part of the answer.",
        remedy="Lower it, or raise max_tokens.",
    )


def _complete_limit(body: dict[str, Any], draft: BodyDraft) -> None:
    """Set the maximum length of the answer, if it is missing, to the model's limit, if known."""
    if "max_tokens" in body:
        return
    limit = draft.attributes.access_value("output_limit_tokens")
    if limit is ABSENT:
        # Thinking is a part of the answer.
        budget = body.get("thinking", {}).get("budget_tokens", 0)
        limit = _DEFAULT_ANSWER_TOKENS + budget
        reason = f"the protocol requires a limit; {limit} tokens were requested"
        draft.ledger.synthesize("controls.max_tokens", reason)
    body["max_tokens"] = limit


_WRITER: Final = RequestWriter(
    protocol=PROTOCOL,
    compose_body=_compose_body,
    takes_cache=True,
    find_message_options=lambda request, *_: {"continuation": request.continuation},
)
nativize_request = _WRITER.nativize_request
produce_processors = _WRITER.produce_processors
