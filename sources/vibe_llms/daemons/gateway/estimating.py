"""Estimate the most that a request may use, before it is sent: tokens and money."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from vibe_llms.daemons.gateway.image_sizes import measure_images
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import Usage
from vibe_llms.models.genera import Genus
from vibe_llms.plugins.specification.daemons import Demand
from vibe_llms.telemetry.prices import OWN_MACHINES, Price, find_dearest, price_usage

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.client_requests import ClientRequest
    from vibe_llms.daemons.gateway.upstreams import Upstream
    from vibe_llms.foundation.forms import FormField
    from vibe_llms.models.descriptors import ModelDescriptor

_INPUT_BYTES_PER_TOKEN: Final = 2
"""A safe bound: no written language has fewer bytes per token for long."""

_IMAGE_TOKENS: Final = 6_000
"""A bound for all vendors, except OpenAI's smallest models, which count cheap tokens many times:
https://platform.openai.com/docs/guides/images-vision, read 2026-11-26."""

_AUDIO_BYTES_PER_TOKEN: Final = 100
"""A safe bound: a second of speech has ten tokens, and a kilobyte at the lowest rate of Opus."""

_COUNT_DIGITS: Final = 10

OUTPUT_BYTES_PER_TOKEN: Final = 3
"""Estimate for answers: English has about four, most other languages fewer."""


class _Generation(msgspec.Struct):
    max_tokens: Any = msgspec.field(default=None, name="maxOutputTokens")
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
    best_of: Any = None
    prompt: Any = None
    generation: _Generation | None = msgspec.field(default=None, name="generationConfig")
    options: _Options | None = None
    request: _Request | None = None


_BODY: Final = msgspec.json.Decoder(_Body)


_DRAWN_TOKENS: Final = 8_192
"""A bound for one image: the largest of OpenAI's has 6,240 tokens in the highest quality.
https://platform.openai.com/docs/guides/image-generation, read 2026-11-29."""

_SPOKEN_TOKENS_PER_BYTE: Final = 3
"""A safe bound: a second of audio has at most 32 tokens, and a letter takes a tenth of a second."""

_SILENT: Final = frozenset({Genus.EMBEDDER, Genus.MODERATOR, Genus.RANKER})
"""Genera whose models generate no tokens."""


def estimate(request: ClientRequest, upstream: Upstream, genus: Genus = Genus.CONVERSER) -> Demand:
    """Return the most that a request may use, as far as known.

    Args:
        genus: The genus of the model.
    """
    descriptor = upstream.model.descriptor
    fields = request.fields
    input_tokens = _bound_input(request.body) if fields is None else _bound_form(fields)
    if genus is Genus.CONVERSER:
        output_tokens, answers = _read_limits(request.body)
        if output_tokens is not None:
            output_tokens *= answers
    else:
        output_tokens, answers = _bound_output(request, genus, input_tokens), 1
    priced_tokens = output_tokens
    if priced_tokens is None:
        model_limit = descriptor.attributes.access_value("output_limit_tokens")
        priced_tokens = model_limit * answers if isinstance(model_limit, int) else None
    return Demand(
        model=request.model or upstream.address,
        address=upstream.address,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cents=_bound_price(
            descriptor, input_tokens, priced_tokens, has_output=genus not in _SILENT
        ),
    )


def _bound_output(request: ClientRequest, genus: Genus, input_tokens: int) -> int:
    """Return an upper bound on the output of a call, whose length a client cannot limit."""
    match genus:
        case Genus.ILLUSTRATOR:
            return _DRAWN_TOKENS * _count_images(request)
        case Genus.SPEAKER:
            return _SPOKEN_TOKENS_PER_BYTE * len(request.body)
        case Genus.TRANSCRIBER:  # a second of speech has fewer words than tokens of audio
            return input_tokens
        case _:
            return 0


def _count_images(request: ClientRequest) -> int:
    if request.fields is None:
        _, count = _read_limits(request.body)
        return count
    texts = [value for name, value in request.fields if name == "n" and isinstance(value, str)]
    # Longer numbers are refused.
    counts = [int(text) for text in texts if text.isdecimal() and len(text) < _COUNT_DIGITS]
    return max(counts, default=1)


def _bound_input(body: bytes) -> int:
    """Return an upper bound on the tokens of a body; images are counted separately."""
    # Smaller images are counted as text, which gives at most _IMAGE_TOKENS.
    min_bytes = _IMAGE_TOKENS * _INPUT_BYTES_PER_TOKEN
    image_sizes = measure_images(body, min_bytes) if len(body) > min_bytes else []
    text_bytes = len(body) - sum(image_sizes)
    return text_bytes // _INPUT_BYTES_PER_TOKEN + 1 + len(image_sizes) * _IMAGE_TOKENS


def _bound_form(fields: Sequence[FormField]) -> int:
    """Return an upper bound on the tokens of a form: its texts, and files of images or audio."""
    count = 1
    for _, value in fields:
        if isinstance(value, str):
            count += len(value.encode()) // _INPUT_BYTES_PER_TOKEN
        elif value.media_type.startswith("image/"):
            count += _IMAGE_TOKENS
        else:
            count += len(value.data) // _AUDIO_BYTES_PER_TOKEN
    return count


def raise_output(usage: Usage, tokens: int) -> Usage:
    """Return the usage of an answer that broke off, including its estimated output.

    Args:
        tokens: Estimated output; a larger number from the vendor counts instead.
    """
    missing = tokens - (usage.total_output_tokens or 0)
    if missing <= 0:
        return usage
    return attrs.evolve(usage, output_tokens=(usage.output_tokens or 0) + missing)


def price_in_cents(
    usage: Usage | None, descriptor: ModelDescriptor, tier: str = ""
) -> Decimal | None:
    """Return the cost of a request; ``None`` if unknown. Models on the user's machines are free.

    Args:
        tier: The price tier, as for :func:`.price_usage`.
    """
    provider, name = descriptor.price_key
    if provider in OWN_MACHINES:
        return Decimal(0)
    price = price_usage(usage, provider=provider, model=name, tier=tier)
    return price.amount * 100 if isinstance(price, Price) else None


def _read_limits(body: bytes) -> tuple[int | None, int]:
    """Return the output limit (``None`` for no limit) and the number of answers of a request."""
    try:
        fields = _BODY.decode(body)
    except UNREADABLE:
        return None, 1  # the request will be refused
    generation = fields.generation or _Generation()
    limits = (
        fields.max_tokens,
        fields.max_completion_tokens,
        fields.max_output_tokens,
        generation.max_tokens,
        fields.options and fields.options.num_predict,
        fields.request and fields.request.controls and fields.request.controls.max_tokens,
    )
    valid = [each for each in map(_read_count, limits) if each is not None]
    answers = _read_count(fields.n) or _read_count(generation.answers) or 1
    candidates = max(answers, _read_count(fields.best_of) or 1)
    return max(valid, default=None), candidates * _count_prompts(fields.prompt)


def _count_prompts(prompt: object) -> int:
    """Return the number of prompts of a completion: texts or lists of tokens."""
    if not isinstance(prompt, list):
        return 1
    return max(1, sum(isinstance(each, str | list) for each in prompt))


def _read_count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None


def _bound_price(
    descriptor: ModelDescriptor,
    input_tokens: int,
    output_tokens: int | None,
    *,
    has_output: bool,
) -> Decimal | None:
    provider, name = descriptor.price_key
    if provider in OWN_MACHINES:
        return Decimal(0)
    if output_tokens is None:
        return None
    rates = find_dearest(provider, name, input_tokens, has_output=has_output)
    if rates is None:
        return None
    input_rate, output_rate = rates  # in dollars
    return 100 * (input_rate * input_tokens + output_rate * output_tokens)
