"""The processors of this dialect: each part of a request, written and read by itself."""

from __future__ import annotations

from vibe_llms.dialects import generate_content as dialect
from vibe_llms.dialects.generate_content.quirks import Quirks
from vibe_llms.dialects.processors import FunctionProcessor, Processors
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.plain import JsonObject


def produce_processors(quirks: Quirks) -> Processors:
    """Makes those of a vendor with these quirks; tokens are estimated."""

    def nativize_controls(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        return dialect.nativize_controls(request.controls, model.attributes, quirks)

    def nativize_messages(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        return dialect.nativize_canisters(
            request.canisters,
            model.attributes,
            quirks,
            provider=model.provider,
        )

    def nativize_invocations(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        return dialect.nativize_invocables(
            request.invocables, request.invocation_choice, provider=model.provider
        )

    return Processors(
        controls=FunctionProcessor(
            nativize_controls,
            lambda native, model: dialect.normalize_controls(native, model.attributes),
        ),
        messages=FunctionProcessor(
            nativize_messages, lambda native, _: dialect.normalize_messages(native)
        ),
        invocations=FunctionProcessor(
            nativize_invocations, lambda native, _: dialect.normalize_invocables(native)
        ),
    )
