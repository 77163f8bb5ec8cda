"""A whole request: what a vendor is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.absence import ABSENT
from vibe_llms.dialects import messages as dialect
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.calling.invocations import nativize_schema
from vibe_llms.dialects.messages.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.processors import Processors, nativize_parts, produce_usual
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.plain import JsonObject


def nativize_request(
    request: Request,
    attributes: ModelAttributes,
    quirks: Quirks,
    *,
    provider: str = "",
    streaming: bool = False,
    processors: Processors | None = None,
) -> Translation[JsonObject]:
    """Returns the whole body of a request.

    Args:
        attributes: Of the model that is asked; the body names it.
        provider: Whose request it is; what other providers signed is withheld.
        streaming: Whether the answer shall come piece by piece.
        processors: Write the parts; by default those of the dialect.

    Raises:
        RequestError: The model cannot do what is asked, or the request makes no sense.
    """
    model = ModelDescriptor(provider=provider, name=attributes.address.name, attributes=attributes)
    parts = nativize_parts(request, model, processors or produce_processors(quirks))
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    extras = ledger.open(request.native, "request")
    body: dict[str, Any] = {"model": attributes.address.name or request.model}
    schema = nativize_schema(request.schema)
    for part in (parts.controls, parts.invocations, schema, parts.messages, extras):
        body = merge(body, part)
    _complete_choice(body, extras.get("tool_choice"), ledger)
    _complete_limit(body, attributes, quirks, ledger)
    if streaming:
        body["stream"] = True
    return Translation(body, (*parts.losses, *ledger.losses))


def _complete_choice(body: dict[str, Any], told: Any, ledger: Ledger) -> None:
    """Makes what was said about the choice alone into a choice that the vendor takes.

    Args:
        told: Of the choice by the client itself, if anything.
    """
    choice = body.get("tool_choice")
    if not choice or not isinstance(choice, Mapping):
        return
    if told is None and not body.get("tools"):
        del body["tool_choice"]
        ledger.drop("controls.parallel_invocations", "there is nothing to invoke")
    elif choice.get("type", "auto") == "none" and "disable_parallel_tool_use" in choice:
        body["tool_choice"] = {"type": "none"}
        ledger.drop("controls.parallel_invocations", "nothing is to be invoked")
    else:
        body["tool_choice"] = {"type": "auto", **choice}


def _complete_limit(
    body: dict[str, Any], attributes: ModelAttributes, quirks: Quirks, ledger: Ledger
) -> None:
    """Says how long the answer may be: as long as the model's answers can be, if that is known."""
    if "max_tokens" in body:
        return
    limit = attributes.access_value("output_limit_tokens")
    if limit is ABSENT:
        budget = body.get("thinking", {}).get("budget_tokens", 0)  # is part of the answer
        limit = quirks.limit_tokens + budget
        reason = f"the protocol insists on a limit; {limit} tokens are asked for"
        ledger.synthesize("controls.max_tokens", reason)
    body["max_tokens"] = limit


def produce_processors(quirks: Quirks) -> Processors:
    """Makes those of a vendor with these quirks; tokens are estimated."""

    def write_messages(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        return dialect.nativize_canisters(
            request.canisters,
            model.attributes,
            quirks,
            provider=model.provider,
            continuation=request.continuation,
        )

    return produce_usual(dialect, quirks, messages=write_messages)
