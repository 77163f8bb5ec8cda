"""Unsupported parameters: adapted or left out if the request is lenient; vendor parameters."""

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

_OURS = frozenset({"model", "stream"})
"""Fields that select the model and the form of the answer."""

_TOOLS = ("tools",)


def leave_out_controls(
    request: Request, attributes: ModelAttributes
) -> tuple[Request, tuple[Loss, ...]]:
    """Return a lenient request with supported controls only, and the losses.

    An unsupported value is replaced by the nearest supported one, if there is one.
    """
    known = {control.name: control for control in attributes.controls}
    kept: dict[str, JsonValue] = {}
    losses: list[Loss] = []
    for name, value in request.controls.items():
        try:
            kept |= check_controls({name: value}, attributes.controls)
        except ControlError as error:
            path, reason = f"controls.{name}", error.detail.rstrip(".")
            nearest = find_nearest(name, request, known, attributes.address.provider)
            try:
                kept |= check_controls({} if nearest is None else dict([nearest]), known.values())
            except ControlError:
                nearest = None
            if nearest is None:
                reason = explain(name, request, attributes) or reason
                losses.append(Loss(kind=LossKind.DROPPED, path=path, reason=reason))
            else:
                told = f"{reason}; {nearest[0]} is sent as {nearest[1]!r}"
                losses.append(Loss(kind=LossKind.COERCED, path=path, reason=told))
    return (attrs.evolve(request, controls=kept) if losses else request), tuple(losses)


def add_native(
    request: Request, body: object, produce_default: Callable[[Request], object]
) -> tuple[object, tuple[Loss, ...]]:
    """Return a native request with the caller's native parameters, and the losses.

    The caller's native parameters are the most specific, so they win: silently over defaults, with
    a loss over other parts of the request. Tools are combined.

    Args:
        request: The caller's request; its native data do not name a protocol.
        body: The translation of the rest of the request.
        produce_default: Returns the translation without the request's parameters, to find defaults.
    """
    assert request.native is not None
    told = msgspec.json.decode(request.native.data, type=dict[str, Any])
    if not isinstance(body, Mapping):
        return body, tuple(_lose(name, "this model has no vendor parameters") for name in told)
    losses = [_lose(name, "it is set by the request itself") for name in told if name in _OURS]
    told = {name: value for name, value in told.items() if name not in _OURS}
    overruled = dict(_find_overruled(told, body, ()))
    if overruled:
        usual = produce_default(Request(canisters=[UserCanister("?")], model=request.model))
        losses += [
            Loss(
                kind=LossKind.COERCED,
                path=f"native.{'.'.join(path)}",
                reason="it overrides another part of the request",
            )
            for path, value in overruled.items()
            if look_up(usual, path) != value
        ]
    return _merge(body, told), tuple(losses)


def _lose(name: str, reason: str) -> Loss:
    return Loss(kind=LossKind.DROPPED, path=f"native.{name}", reason=reason)


def _find_overruled(
    told: Mapping[str, Any], body: Mapping[str, Any], place: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in told.items():
        path = (*place, name)
        if name not in body or value == body[name] or path == _TOOLS:
            continue
        if isinstance(value, Mapping) and isinstance(body[name], Mapping):
            yield from _find_overruled(value, body[name], path)
        else:
            yield path, body[name]


def _merge(body: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(body)
    for name, value in told.items():
        known = merged.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            merged[name] = _merge(known, value)
        elif (name,) == _TOOLS and isinstance(value, list) and isinstance(known, (list, tuple)):
            merged[name] = [*known, *value]
        else:
            merged[name] = value
    return merged
