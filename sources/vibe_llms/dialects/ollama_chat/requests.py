"""A whole request: the body that goes to a server, and the meaning of one that a client sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.ollama_chat.controls import (
    UNSAID_LEVEL,
    split_controls,
)
from vibe_llms.dialects.ollama_chat.invocations import (
    nativize_schema,
    normalize_invocables,
    normalize_schema,
)
from vibe_llms.dialects.ollama_chat.processors import produce_processors
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.ollama_chat.reading import normalize_messages
from vibe_llms.dialects.processors import Processors, nativize_parts
from vibe_llms.dialects.residues import keep_native, leave
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request, is_answerable
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.plain import JsonObject

_COMMON_FIELDS: Final = frozenset(
    {"format", "messages", "model", "options", "stream", "think", "tools"}
)


def nativize_request(
    request: Request,
    attributes: ModelAttributes,
    quirks: Quirks,
    *,
    provider: str = "",
    streaming: bool = False,
    processors: Processors | None = None,
) -> Translation[JsonObject]:
    """Returns the whole body. A continuation is a last message of the assistant.

    Args:
        attributes: Of the model that is asked; its name is the body's.
        provider: Whose request it is; residues of other providers stay behind.
        processors: Write the parts; by default those of the dialect.

    Raises:
        RequestError: The request cannot be said, or a control or a medium does not fit.
    """
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    residue = ledger.open(request.native, "request")
    model = ModelDescriptor(provider=provider, name=attributes.address.name, attributes=attributes)
    parts = nativize_parts(request, model, processors or produce_processors(quirks))
    body: dict[str, Any] = {
        "model": attributes.address.name,
        **parts.messages,
        "stream": streaming,
        **parts.controls,
        **parts.invocations,
        **nativize_schema(request.schema),
    }
    _add_residue(body, residue)
    return Translation(body, (*parts.losses, *ledger.losses))


def _add_residue(body: dict[str, Any], residue: dict[str, Any]) -> None:
    """Adds what has no common word; where it only refines a common one, that one must hold."""
    if residue.get("think") is True and body.get("think") == UNSAID_LEVEL:
        body["think"] = True
    options = residue.pop("options", None)
    if isinstance(options, Mapping):
        body["options"] = {**options, **body.get("options", {})}
    elif options is not None:
        body.setdefault("options", options)
    for name, value in residue.items():
        body.setdefault(name, value)


def normalize_request(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Request]:
    """Returns the meaning of a client's request.

    Args:
        attributes: Of the model that is asked; without them all common controls count.

    Raises:
        RequestError: It makes no sense, or there is nothing to answer, as in a request that
            only loads a model.
    """
    messages = normalize_messages(native)
    tools = normalize_invocables(native)
    schema = normalize_schema(native)
    controls, residue = split_controls(native, attributes)
    residue |= leave(native, *_COMMON_FIELDS)
    if native.get("format") and schema.value is None:
        residue["format"] = native["format"]
    canisters = messages.value
    request = Request(
        canisters=canisters,
        model=str(native.get("model") or ""),
        controls=controls,
        invocables=tools.value[0],
        schema=schema.value,
        continuation=bool(canisters) and not is_answerable(canisters[-1]),
        native=keep_native(PROTOCOL, residue),
    )
    return Translation(request, (*messages.losses, *tools.losses))
