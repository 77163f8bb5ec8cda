"""What a request comes to at most, before anything is sent: in tokens, and in money."""

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
"""An estimate from above: no language that is written has fewer bytes a token for long."""

_PICTURE_TOKENS: Final = 6_000
"""More than a picture comes to at any vendor, but for OpenAI's smallest models, which count a cheap
token many times: https://platform.openai.com/docs/guides/images-vision, read 2026-11-26."""

SAID_BYTES_A_TOKEN: Final = 3
"""An estimate of what was said: English has about four, most other languages fewer."""


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
    """What requests of the protocols say about the length of their answer, wherever it stands."""

    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    n: Any = None
    generation: _Generation | None = msgspec.field(default=None, name="generationConfig")
    options: _Options | None = None
    request: _Request | None = None


_BODY: Final = msgspec.json.Decoder(_Body)


def estimate(asked: ClientRequest, upstream: Upstream) -> Demand:
    """Says what a request would use at most, as far as that is known."""
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
    """Returns the tokens that a body comes to at most; of a picture its bytes say little."""
    size, most = len(body), _PICTURE_TOKENS * _BYTES_A_TOKEN
    pictures = measure_pictures(body, most) if size > most else []
    return (size - sum(pictures)) // _BYTES_A_TOKEN + 1 + len(pictures) * _PICTURE_TOKENS


def raise_output(usage: Usage, tokens: int) -> Usage:
    """Returns the account of an answer that broke off, with what was said of it until then.

    Args:
        tokens: An estimate of that; what the vendor has told counts where it is more.
    """
    missing = tokens - (usage.total_output_tokens or 0)
    if missing <= 0:
        return usage
    return attrs.evolve(usage, output_tokens=(usage.output_tokens or 0) + missing)


def price_in_cents(usage: Usage | None, descriptor: ModelDescriptor) -> Decimal | None:
    """Says what a request has cost; ``None`` where nobody knows. Our own machines send no bill."""
    provider, name = descriptor.priced
    if provider in OWN_MACHINES:
        return Decimal(0)
    price = price_usage(usage, provider=provider, model=name)
    return price.amount * 100 if isinstance(price, Price) else None


def _read_bound(body: bytes) -> tuple[int | None, int]:
    """Returns how many tokens an answer may have, ``None`` for any number, and how many answers."""
    try:
        read = _BODY.decode(body)
    except UNREADABLE:
        return None, 1  # nobody answers that
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
