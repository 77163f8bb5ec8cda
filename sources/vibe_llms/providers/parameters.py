"""Adaptation of unsupported parameters of lenient requests, and merging of native parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import msgspec

from vibe_llms.dialects.request_paths import look_up
from vibe_llms.exceptions import ControlError
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.controls import check_controls
from vibe_llms.providers.nearest import explain, find_nearest

_FIXED_FIELDS = frozenset({"model", "stream"})
"""Fields that native parameters cannot set: they select the model and the form of the answer."""

_TOOLS_PATH = ("tools",)


def leave_out_controls(
    request: Request, attributes: ModelAttributes
) -> tuple[Request, tuple[Loss, ...]]:
    """Return a lenient request with supported controls only, and the losses.

    An unsupported value is replaced by the nearest supported value, if any.
    """
    controls = {control.name: control for control in attributes.controls}
    supported: dict[str, JsonValue] = {}
    losses: list[Loss] = []
    for name, value in request.controls.items():
        try:
            supported |= check_controls({name: value}, attributes.controls)
        except ControlError as error:
            path, reason = f"controls.{name}", error.detail.rstrip(".")
            nearest = find_nearest(name, request, controls, attributes.address.provider)
            try:
                if nearest is not None:
                    supported |= check_controls(dict([nearest]), controls.values())
            except ControlError:
                nearest = None
            if nearest is None:
                reason = explain(name, request, attributes) or reason
                losses.append(Loss(kind=LossKind.DROPPED, path=path, reason=reason))
            else:
                reason = f"{reason}; {nearest[0]} is sent as {nearest[1]!r}"
                losses.append(Loss(kind=LossKind.COERCED, path=path, reason=reason))
    return (attrs.evolve(request, controls=supported) if losses else request), tuple(losses)


def add_native(
    request: Request, body: object, produce_default: Callable[[Request], object]
) -> tuple[object, tuple[Loss, ...]]:
    """Return a native request with the caller's native parameters, and the losses.

    The caller's native parameters are the most specific, so they override everything else. To
    override a default is not a loss; to override another part of the request is one. Tools are
    combined.

    Args:
        request: The caller's request, whose native data do not name a protocol.
        body: The translation of the rest of the request.
        produce_default: Translates a request; used with an otherwise empty one, to find defaults.
    """
    assert request.native is not None
    parameters = msgspec.json.decode(request.native.data, type=dict[str, Any])
    if not isinstance(body, Mapping):
        return body, tuple(
            _produce_loss(name, "this model has no vendor parameters") for name in parameters
        )
    losses = [
        _produce_loss(name, "it is set by the request itself")
        for name in parameters
        if name in _FIXED_FIELDS
    ]
    parameters = {name: value for name, value in parameters.items() if name not in _FIXED_FIELDS}
    overridden = dict(_find_overridden(parameters, body, ()))
    if overridden:
        default = produce_default(Request(canisters=[UserCanister("?")], model=request.model))
        losses += [
            Loss(
                kind=LossKind.COERCED,
                path=f"native.{'.'.join(path)}",
                reason="it overrides another part of the request",
            )
            for path, value in overridden.items()
            if look_up(default, path) != value
        ]
    return _merge(body, parameters), tuple(losses)


def _produce_loss(name: str, reason: str) -> Loss:
    return Loss(kind=LossKind.DROPPED, path=f"native.{name}", reason=reason)


def _find_overridden(
    parameters: Mapping[str, Any], body: Mapping[str, Any], prefix: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and the value of each field of the body that a parameter overrides."""
    for name, value in parameters.items():
        path = (*prefix, name)
        if name not in body or value == body[name] or path == _TOOLS_PATH:
            continue
        if isinstance(value, Mapping) and isinstance(body[name], Mapping):
            yield from _find_overridden(value, body[name], path)
        else:
            yield path, body[name]


def _merge(body: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(body)
    for name, value in parameters.items():
        current = merged.get(name)
        if isinstance(value, Mapping) and isinstance(current, Mapping):
            merged[name] = _merge(current, value)
        elif (
            (name,) == _TOOLS_PATH
            and isinstance(value, list)
            and isinstance(current, (list, tuple))
        ):
            merged[name] = [*current, *value]
        else:
            merged[name] = value
    return merged
