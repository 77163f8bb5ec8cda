"""A request to another instance of vibe-llms, which translates the request for a provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.converse.versions import VERSION
from vibe_llms.dialects.media_types import ensure_capability, read_file_text
from vibe_llms.dialects.payloads import produce_missing_bytes
from vibe_llms.dialects.processors import FunctionProcessor, Processors, nativize_parts
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.canisters import AnyCanister, DocumentCanister, UserCanister
from vibe_llms.messages.codec.converter import produce_converter
from vibe_llms.messages.codec.decoding import read_tree
from vibe_llms.messages.contents import MEDIA_CLASSES, FileContent, MediaContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import list_content_classes
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.controls import check_controls
from vibe_llms.models.descriptors import ModelDescriptor

_REST: Final = (
    "continuation",
    "strict",
    "lenient",
    "window",
    "native",
    "conversation_id",
    "resume",
)
"""The fields of a request that are not translated by a processor."""


def nativize_request(
    request: Request,
    attributes: ModelAttributes,
    quirks: object = None,
    *,
    provider: str = "",
    streaming: bool = False,
    processors: Processors | None = None,
) -> Translation[JsonObject]:
    """Return the body: the request, and whether to stream its answer. Lossless.

    Args:
        attributes: The model's attributes. The name is the model's address in the other instance.
        quirks: Unused.
        provider: The request's provider.
        streaming: Whether to stream the answer.
        processors: Write the parts; by default those of the dialect.

    Raises:
        CapabilityError: The model is known not to support a medium.
        ControlError: The model is known not to have the control, or the value is invalid.
        RequestError: The bytes of a medium are missing.
    """
    name = attributes.address.name
    model = ModelDescriptor(provider=provider, name=name, attributes=attributes)
    parts = nativize_parts(request, model, processors or produce_processors(quirks))
    plain = produce_converter().unstructure
    other_fields = {field: plain(getattr(request, field)) for field in _REST}
    if request.cache is not None:
        other_fields["cache"] = plain(request.cache)
    body: JsonObject = {
        "version": VERSION,
        "stream": streaming,
        "request": {
            **parts.messages,
            "model": name,
            **parts.controls,
            **parts.invocations,
            "schema": request.schema,  # not converted: the order of its properties matters
            **other_fields,
        },
    }
    return Translation(body, parts.losses)


def produce_processors(quirks: object = None) -> Processors:
    """Make the four processors; tokens are estimated.

    Args:
        quirks: Unused.
    """
    # Messages are not verbatim: the next request has the same fields, but other ids and times.
    return Processors(
        controls=FunctionProcessor(_nativize_controls, _normalize_controls),
        messages=FunctionProcessor(_nativize_messages, _normalize_messages, is_additive=True),
        invocations=FunctionProcessor(
            _nativize_invocations, _normalize_invocations, is_verbatim=True
        ),
    )


def _nativize_controls(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
    # Without known controls, the other side checks them.
    known = model.attributes.controls
    if known and not request.lenient:
        check_controls(request.controls, known)
    return Translation({"controls": produce_converter().unstructure(dict(request.controls))})


def _normalize_controls(
    native: JsonObject, model: ModelDescriptor
) -> Translation[Mapping[str, JsonValue]]:
    return Translation(_access(native, "controls"))


def _nativize_messages(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
    classes = list_content_classes(request.canisters)
    if any(issubclass(each, MEDIA_CLASSES) for each in classes):
        for index, canister in enumerate(request.canisters):
            for place, content in enumerate(canister.content):
                if isinstance(content, MEDIA_CLASSES):
                    path = f"canisters[{index}].content[{place}]"
                    _ensure_medium(content, canister, path, model.attributes)
    return Translation({"canisters": list(map(msgspec.to_builtins, request.canisters))})


def _ensure_medium(
    content: MediaContent, canister: AnyCanister, path: str, attributes: ModelAttributes
) -> None:
    """Reject media that the model is known not to support, or whose data are missing."""
    if content.data is None and content.url is None and content.file_id is None:
        raise produce_missing_bytes(content, path)
    is_text = isinstance(content, FileContent) and read_file_text(content) is not None
    if isinstance(canister, (UserCanister, DocumentCanister)) and not is_text:
        ensure_capability(content, attributes, path)


def _normalize_messages(
    native: JsonObject, model: ModelDescriptor
) -> Translation[tuple[AnyCanister, ...]]:
    return Translation(read_tree(_access(native, "canisters"), tuple[AnyCanister, ...]))


def _nativize_invocations(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
    plain = produce_converter().unstructure
    descriptions = [plain(each) for each in request.invocables]
    return Translation({"invocables": descriptions, "invocation_choice": request.invocation_choice})


def _normalize_invocations(
    native: JsonObject, model: ModelDescriptor
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    descriptions = read_tree(_access(native, "invocables"), tuple[InvocableDescription, ...])
    return Translation((descriptions, str(_access(native, "invocation_choice"))))


def _access(native: JsonObject, field: str) -> Any:
    request: Any = native["request"]
    return request[field]
