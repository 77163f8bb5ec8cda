"""Attributes of spans and metrics about requests, answers and tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from vibe_llms.foundation.secrets import redact_name
from vibe_llms.messages.call_results import CallResult
from vibe_llms.messages.canisters import Origin, Usage
from vibe_llms.messages.illustrations import IllustrationRequest
from vibe_llms.messages.requests import Request, Response
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.telemetry.opentelemetry import conventions, messages

Attribute: TypeAlias = str | bool | int | float | Sequence[str]
Attributes: TypeAlias = dict[str, Attribute]

_MODEL_CHARACTERS: Final = 200
"""Longest name of a model, which a client of the gateway may have chosen."""


def describe_request(request: Request) -> Attributes:
    """Return the controls of a request, and the requested type of answer."""
    attributes: Attributes = {}
    for control, attribute in conventions.CONTROLS.items():
        value = request.controls.get(control)
        if isinstance(value, (bool, int, float, str)):
            # The conventions require a list of stop sequences, also for a single one.
            attributes[attribute] = value if control != "stop" else (str(value),)
        elif isinstance(value, Sequence):
            attributes[attribute] = tuple(str(item) for item in value)
    if request.schema is not None:
        attributes[conventions.OUTPUT_TYPE] = "json"
    return attributes


def describe_origin(origin: Origin) -> Attributes:
    """Return the model of an answer, its stop reason and usage."""
    attributes: Attributes = {
        conventions.RESPONSE_MODEL: redact_name(origin.model, _MODEL_CHARACTERS)
    }
    if origin.response_id is not None:
        attributes[conventions.RESPONSE_ID] = origin.response_id
    if origin.stop_reason in conventions.FINISHES:
        attributes[conventions.FINISH_REASONS] = (conventions.FINISHES[origin.stop_reason],)
    return {**attributes, **describe_usage(origin.usage)}


def describe_usage(usage: Usage | None) -> Attributes:
    """Return the known tokens; in the conventions, totals include cached and reasoning tokens."""
    if usage is None:
        return {}
    writes = (usage.cache_write_tokens, usage.cache_write_long_tokens)
    known_writes = [count for count in writes if count is not None]
    counts: Mapping[str, int | None] = {
        conventions.INPUT_TOKENS: usage.total_input_tokens,
        conventions.OUTPUT_TOKENS: usage.total_output_tokens,
        conventions.CACHE_READ_TOKENS: usage.cache_read_tokens,
        conventions.CACHE_WRITE_TOKENS: sum(known_writes) if known_writes else None,
        conventions.REASONING_TOKENS: usage.reasoning_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}


def describe_call(genus: str, request: object) -> Attributes:
    """Return the parameters of a call outside of a conversation; never its texts and media."""
    attributes: Attributes = {}
    if genus in conventions.OUTPUT_TYPES:
        attributes[conventions.OUTPUT_TYPE] = conventions.OUTPUT_TYPES[genus]
    if isinstance(request, EmbeddingRequest) and request.dimensions is not None:
        attributes[conventions.DIMENSIONS] = request.dimensions
    if isinstance(request, IllustrationRequest) and request.count > 1:
        attributes[conventions.CHOICES] = request.count
    return attributes


def describe_result(result: CallResult) -> Attributes:
    """Return the model and usage of a result, and the length of vectors."""
    attributes = describe_origin(result.origin)
    attributes.pop(conventions.FINISH_REASONS, None)  # there is only one
    if isinstance(result, Vectors):
        attributes[conventions.DIMENSIONS] = result.width
    return attributes


def name_model(operation: str, address: str) -> Attributes:
    """Return the attributes of an operation with a model, for its span and its metrics."""
    provider, model = split_address(address)
    attributes: Attributes = {conventions.OPERATION: operation}
    if provider:
        attributes[conventions.PROVIDER] = conventions.name_provider(provider)
    if model:
        attributes[conventions.REQUEST_MODEL] = model
    return attributes


def describe_texts(response: Response) -> Attributes:
    """Return the texts of a request and its answer; only for observers that capture texts."""
    instructions, history = messages.split_instructions(response.request.canisters)
    origin = response.metadata.origin
    output = messages.describe_output(response.canisters, origin.stop_reason)
    attributes: Attributes = {
        conventions.INPUT_MESSAGES: messages.write(messages.describe_input(history)),
        conventions.OUTPUT_MESSAGES: messages.write(output),
    }
    if instructions:
        attributes[conventions.INSTRUCTIONS] = messages.write(instructions)
    return attributes


def split_address(address: str) -> tuple[str, str]:
    """Return the provider and model of an address; missing parts are empty, and keys hidden."""
    provider, colon, model = redact_name(address, _MODEL_CHARACTERS).partition(":")
    return (provider, model) if colon else ("", provider)
