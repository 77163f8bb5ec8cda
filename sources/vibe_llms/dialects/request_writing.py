"""Translation of whole requests for all dialects, from the parts that the processors write."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.openai_caching import remove_carried
from vibe_llms.dialects.processors import FunctionProcessor, Parts, Processors, nativize_parts
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.descriptors import ModelDescriptor


def _find_no_options(request: Request, attributes: ModelAttributes, quirks: Any) -> dict[str, Any]:
    return {}


@frozen
class BodyDraft:
    """The data from which a body is composed.

    Attributes:
        attributes: The model's attributes.
        quirks: The vendor's quirks, in the dialect's class for them.
        extras: The request's native data of this protocol.
        ledger: Records losses.
        streaming: Whether to stream the answer.
    """

    request: Request
    parts: Parts
    attributes: ModelAttributes
    quirks: Any
    extras: dict[str, Any]
    ledger: Ledger
    streaming: bool


@frozen(kw_only=True)
class RequestWriter:
    """Writes requests in one dialect, whose package has functions for the parts.

    Attributes:
        protocol: The dialect's name, which is the name of its package.
        compose_body: Makes the whole body.
        find_message_options: Returns additional keyword arguments for the translation of canisters.
        shared: The fields of a request that other interfaces of the same service also have.
        takes_cache: Whether ``compose_body`` writes the cache hint of a request.
    """

    protocol: str
    compose_body: Callable[[BodyDraft], dict[str, Any]]
    find_message_options: Callable[[Request, ModelAttributes, Any], dict[str, Any]] = (
        _find_no_options
    )
    shared: tuple[str, ...] = ()
    takes_cache: bool = False

    def nativize_request(
        self,
        request: Request,
        attributes: ModelAttributes,
        quirks: Any,
        *,
        provider: str = "",
        streaming: bool = False,
        processors: Processors | None = None,
    ) -> Translation[JsonObject]:
        """Return the body of a request, composed from the output of the processors.

        Args:
            attributes: The model's attributes.
            quirks: The vendor's quirks, in the dialect's class for them.
            provider: The request's provider: signatures of others are withheld. Empty for any
                provider of the dialect.
            streaming: Whether to stream the answer.
            processors: Translate the parts; by default those of the dialect.

        Raises:
            CapabilityError: The model is known not to support a content.
            ControlError: The model does not have the control, or the value is invalid.
            RequestError: The vendor does not support the request; nothing was sent.
        """
        name = attributes.address.name
        model = ModelDescriptor(provider=provider, name=name, attributes=attributes)
        parts = nativize_parts(request, model, processors or self.produce_processors(quirks))
        ledger = Ledger(protocol=self.protocol, provider=provider)
        native = request.native
        if request.cache is not None:
            if not self.takes_cache:
                ledger.omit_hint("cache")
            if native is not None and native.protocol != self.protocol:
                native = remove_carried(native)
        extras = ledger.read_sendable(
            native, "request", shared=self._survey_shared(request, quirks)
        )
        draft = BodyDraft(request, parts, attributes, quirks, extras, ledger, streaming)
        return Translation(self.compose_body(draft), (*parts.losses, *ledger.losses))

    def _survey_shared(self, request: Request, quirks: Any) -> tuple[str, ...]:
        """Return the fields of another protocol's request that mean the same to this service."""
        native, siblings = request.native, getattr(quirks, "siblings", ())
        is_own = native is not None and any(native.protocol == each for _, each in siblings)
        return self.shared if is_own else ()

    def produce_processors(self, quirks: Any) -> Processors:
        """Make the processors for a vendor with these quirks; tokens are estimated."""
        place = f"vibe_llms.dialects.{self.protocol}"
        controls, canisters, invocables = (
            importlib.import_module(f"{place}.calling.{name}")
            for name in ("controls", "messages", "invocations")
        )
        # Look up the functions that read requests when needed, as calling a vendor must not import
        # them.
        dialect: Any = importlib.import_module(place)
        return Processors(
            controls=FunctionProcessor(
                lambda request, model: controls.nativize_controls(
                    request.controls, model.attributes, quirks
                ),
                lambda native, model: dialect.normalize_controls(native, model.attributes),
                is_verbatim=True,
            ),
            messages=FunctionProcessor(
                lambda request, model: canisters.nativize_canisters(
                    request.canisters,
                    model.attributes,
                    quirks,
                    provider=model.provider,
                    **self.find_message_options(request, model.attributes, quirks),
                ),
                lambda native, _: dialect.normalize_messages(native),
                is_additive=True,
                is_verbatim=True,
            ),
            invocations=FunctionProcessor(
                lambda request, model: invocables.nativize_invocables(
                    request.invocables,
                    request.invocation_choice,
                    quirks,
                    provider=model.provider,
                    model=model.name,
                ),
                lambda native, _: dialect.normalize_invocables(native),
                is_verbatim=True,
            ),
        )
