"""Schemas that a vendor enforces, and schemas that it may ignore."""

from __future__ import annotations

from typing import Any

import pytest

from vibe_llms.dialects.chat_completions import Quirks, nativize_request
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.models.catalogue import Catalogue

CLOSED = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "is_strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "additionalProperties": {"type": "string"}}, False),
        ({**CLOSED, "properties": {"name": {"type": "object"}}}, False),
    ],
)
def test_only_enforceable_schemas_are_marked_as_strict(
    schema: dict[str, Any], is_strict: bool
) -> None:
    """The vendor would reject others; these are sent without the mark, as a loss."""
    attributes = Catalogue().access_integrator("openai_conversations").integrate("gpt-5")
    request = Request(canisters=[UserCanister("Paris?")], schema=schema)

    strict = nativize_request(request, attributes, Quirks())
    lax = nativize_request(request, attributes, Quirks(takes_strict=False))

    response_format: Any = strict.value["response_format"]
    assert response_format["json_schema"]["strict"] is is_strict
    assert [loss.path for loss in strict.losses] == ([] if is_strict else ["schema"])
    assert lax.losses == ()
