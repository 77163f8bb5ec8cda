"""A client's whole request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.quirks import PROTOCOL
from vibe_llms.dialects.generate_content.serving.controls import normalize_controls, remove_controls
from vibe_llms.dialects.generate_content.serving.invocations import (
    normalize_invocables,
    normalize_schema,
    remove_choice,
    remove_schema,
)
from vibe_llms.dialects.generate_content.serving.messages import normalize_messages
from vibe_llms.dialects.residues import keep_native, without
from vibe_llms.dialects.serving import refuse_nonsense
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request, is_answerable
from vibe_llms.models.attributes import ModelAttributes


def normalize_request(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Request]:
    """Returns what a client asks with a body of this protocol.

    Args:
        attributes: Of the model that shall be asked: parameters which are no control of it stay
            native.

    Raises:
        RequestError: The request makes no sense.
    """
    with refuse_nonsense("The request", "generateContent", "request"):
        fields = camelize(native)
        canisters = normalize_messages(fields)
        invocables = normalize_invocables(fields)
        controls = normalize_controls(fields, attributes)
        schema = normalize_schema(fields)
        descriptions, choice = invocables.value
        rest = without(fields, "contents", "systemInstruction", "tools")
        rest = remove_schema(remove_controls(rest, controls.value))
        if any(description.schema is not None for description in descriptions):
            rest = remove_choice(rest, choice)
        rest = {k: v for k, v in rest.items() if v is not None and (k != "generationConfig" or v)}
    request = Request(
        canisters=canisters.value,
        controls=controls.value,
        invocables=descriptions,
        invocation_choice=choice,
        schema=schema.value,
        native=keep_native(PROTOCOL, rest),
        continuation=bool(canisters.value) and not is_answerable(canisters.value[-1]),
    )
    losses = (*canisters.losses, *invocables.losses, *controls.losses, *schema.losses)
    return Translation(request, losses)
