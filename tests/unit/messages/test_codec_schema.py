"""The JSON Schema describes what is written, and nothing more than what reads."""

from __future__ import annotations

import json
from typing import Any

import attrs
import jsonschema
import pytest
from hypothesis import given

from strategies.messages import canisters, errors, requests, responses
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.package_data import access_data
from vibe_llms.messages.canisters import CANISTER_CLASSES, AnyCanister, Origin, Usage
from vibe_llms.messages.codec.canister_lines import encode_canister
from vibe_llms.messages.codec.envelopes import encode_request, encode_response
from vibe_llms.messages.codec.errors import encode_error
from vibe_llms.messages.contents import CONTENT_CLASSES, Citation, Native
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request, Response, ResponseMetadata

SCHEMA = json.loads(access_data("schemas", "messages.schema.json").read_text(encoding="utf-8"))
VALIDATORS = {
    name: jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{name}"})
    for name in ("canister", "request", "response", "error")
}


def check(name: str, data: bytes) -> None:
    """Checks that a document is what its definition says."""
    VALIDATORS[name].validate(json.loads(data))


def test_the_schema_is_a_schema() -> None:
    """The shipped file is valid JSON Schema."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@given(canisters)
def test_every_line_is_valid(canister: AnyCanister) -> None:
    """A line of any kind of canister is what the schema says."""
    check("canister", encode_canister(canister))


@pytest.mark.slow
@given(requests)
def test_every_request_is_valid(request_: Request) -> None:
    """So is a request."""
    check("request", encode_request(request_))


@pytest.mark.slow
@given(responses)
def test_every_response_is_valid(response: Response) -> None:
    """So is a response."""
    check("response", encode_response(response))


@given(errors)
def test_every_error_is_valid(error: ConverseError) -> None:
    """So is an error of any class."""
    check("error", encode_error(error))


@pytest.mark.parametrize(
    "cls",
    [
        *CANISTER_CLASSES.values(),
        *CONTENT_CLASSES.values(),
        *(Citation, InvocableDescription, Loss, Native, Origin),
        *(Request, Response, ResponseMetadata, Usage),
    ],
)
def test_the_schema_knows_the_fields_of_each_class(cls: type[Any]) -> None:
    """A field that is added to a class is added to the schema, in the same place."""
    definition = SCHEMA["$defs"][cls.__name__[0].lower() + cls.__name__[1:]]

    assert list(definition["properties"]) == [field.name for field in attrs.fields(cls)]
    assert definition["additionalProperties"] is False


@pytest.mark.parametrize(
    "line",
    [
        '{"role":"user"}',
        '{"role":"usr","timestamp":"2025-11-15T10:00:00Z"}',
        '{"role":"user","timestamp":"2025-11-15T10:00:00Z","titel":"x"}',
        '{"role":"user","timestamp":"2025-11-15T10:00:00Z","content":[{"type":"txt"}]}',
        '{"role":"user","timestamp":"2025-11-15T10:00:00Z","content":[{"type":"image",'
        '"mime_type":"image/png"}]}',
    ],
)
def test_what_does_not_read_is_not_valid(line: str) -> None:
    """The schema refuses what the codec refuses."""
    with pytest.raises(jsonschema.ValidationError):
        check("canister", line.encode())


def test_a_line_by_hand_is_valid() -> None:
    """What may be left out on reading may be left out by the schema."""
    line = (
        '{"role":"user","timestamp":"2025-11-15T10:00:00Z","content":[{"type":"text","text":"hi"}]}'
    )

    check("canister", line.encode())
