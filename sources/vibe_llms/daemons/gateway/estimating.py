"""Estimate the most that a request may use, before it is sent: tokens and money."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from vibe_llms.daemons.gateway.image_sizes import measure_pictures
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import Usage
from vibe_llms.plugins.specification.daemons import Demand
from vibe_llms.telemetry.prices import OWN_MACHINES, Price, find_dearest, price_usage

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.client_requests import ClientRequest
    from vibe_llms.daemons.gateway.upstreams import Upstream
    from vibe_llms.models.descriptors import ModelDescriptor

_BYTES_A_TOKEN: Final = 2
"""A safe bound: no written language has fewer bytes per token for long."""

_PICTURE_TOKENS: Final = 6_000
"""A bound for all vendors, except OpenAI's smallest models, which count cheap tokens many times:
https://platform.openai.com/docs/guides/images-vision, read 2026-11-26."""

SAID_BYTES_A_TOKEN: Final = 3
"""Estimate for answers: English has about four, most other languages fewer."""


class _Generation(msgspec.Struct):
    most: Any = msgspec.field(default=None, name="maxOutputTokens")
    answers: Any = msgspec.field(default=None, name="candidateCount")


class _Options(msgspec.Struct):
    num_predict: Any = None


class _Controls(msgspec.Struct):
    max_tokens: Any = None


class _Request(msgspec.Struct):
    controls: _Controls | None = None


class _Body(msgspec.Struct):
    """Fields of all protocols that limit the length of an answer."""

    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    n: Any = None
    generation: _Generation | None = msgspec.field(default=None, name="generationConfig")
    options: _Options | None = None
    request: _Request | None = None


_BODY: Final = msgspec.json.Decoder(_Body)


def estimate(asked: ClientRequest, upstream: Upstream) -> Demand:
    """Return the most that a request may use, as far as known."""
    descriptor = upstream.model.descriptor
    input_tokens = _count_at_most(asked.body)
    output_tokens, answers = _read_bound(asked.body)
    if output_tokens is not None:
        output_tokens *= answers
    most = output_tokens
    if most is None:
        limit = descriptor.attributes.access_value("output_limit_tokens")
        most = limit * answers if isinstance(limit, int) else None
    return Demand(
        model=asked.model or upstream.address,
        address=upstream.address,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cents=_price_at_most(descriptor, input_tokens, most),
    )


def _count_at_most(body: bytes) -> int:
    """Return a bound on the tokens of a body; images are counted separately."""
    size, most = len(body), _PICTURE_TOKENS * _BYTES_A_TOKEN
    pictures = measure_pictures(body, most) if size > most else []
    return (size - sum(pictures)) // _BYTES_A_TOKEN + 1 + len(pictures) * _PICTURE_TOKENS


def raise_output(usage: Usage, tokens: int) -> Usage:
    """Return the usage of an answer that broke off, including its estimated output.

    Args:
        tokens: Estimated output; a larger number from the vendor counts instead.
    """
    missing = tokens - (usage.total_output_tokens or 0)
    if missing <= 0:
        return usage
    return attrs.evolve(usage, output_tokens=(usage.output_tokens or 0) + missing)


def price_in_cents(usage: Usage | None, descriptor: ModelDescriptor) -> Decimal | None:
    """Return the cost of a request; ``None`` if unknown. Own machines are free."""
    provider, name = descriptor.priced
    if provider in OWN_MACHINES:
        return Decimal(0)
    price = price_usage(usage, provider=provider, model=name)
    return price.amount * 100 if isinstance(price, Price) else None


def _read_bound(body: bytes) -> tuple[int | None, int]:
    """Return the output limit (``None`` for no limit) and the number of answers of a request."""
    try:
        read = _BODY.decode(body)
    except UNREADABLE:
        return None, 1  # the request will be refused
    generation = read.generation or _Generation()
    bounds = (
        read.max_tokens,
        read.max_completion_tokens,
        read.max_output_tokens,
        generation.most,
        read.options and read.options.num_predict,
        read.request and read.request.controls and read.request.controls.max_tokens,
    )
    found = [each for each in map(_read_count, bounds) if each is not None]
    answers = _read_count(read.n) or _read_count(generation.answers) or 1
    return max(found, default=None), answers


def _read_count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count and isinstance(value, int) else None


def _price_at_most(
    descriptor: ModelDescriptor, input_tokens: int, output_tokens: int | None
) -> Decimal | None:
    provider, name = descriptor.priced
    if provider in OWN_MACHINES:
        return Decimal(0)
    if output_tokens is None:
        return None
    rates = find_dearest(provider, name, input_tokens)
    if rates is None:
        return None
    return 100 * (rates[0] * input_tokens + rates[1] * output_tokens)
