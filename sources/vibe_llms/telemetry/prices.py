"""Prices of responses: exact decimals, from the buckets of their usage. Unknown is never zero.

The prices are those of the optional package ``genai-prices``, at the vendor's standard tier:
without surcharges for priority and without fees for searches. Prices of a vendor's own batches are
a fraction of them (:mod:`.discounts`). Each bucket is multiplied by its own price. A bucket without
a price of its own is not priced, except for reasoning, which every vendor charges as output.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.optional_packages import advise_extra
from vibe_llms.messages.canisters import Usage
from vibe_llms.telemetry.discounts import BATCH_DISCOUNTS

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

_MILLION: Final = Decimal(1_000_000)

_BUCKETS: Final[Mapping[str, tuple[str, ...]]] = {
    "input_tokens": ("input_mtok",),
    "cache_read_tokens": ("cache_read_mtok",),
    "cache_write_tokens": ("cache_write_5m_mtok", "cache_write_mtok"),
    "cache_write_long_tokens": ("cache_write_1h_mtok",),
    "input_audio_tokens": ("input_audio_mtok",),
    "output_tokens": ("output_mtok",),
    "reasoning_tokens": ("output_reasoning_mtok", "output_mtok"),
    "output_audio_tokens": ("output_audio_mtok",),
}
"""Possible prices of each bucket of :class:`Usage`; the first that exists is used."""

_IMAGE_RATES: Final[Mapping[str, str]] = {
    "input_tokens": "input_image_mtok",
    "output_tokens": "output_image_mtok",
}
"""Prices of the images within a bucket, where they differ from those of text."""

_SOURCES: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "bedrock": "aws",
    "deepseek": "deepseek",
    "google": "google",
    "groq": "groq",
    "mistral": "mistral",
    "openai": "openai",
    "openai_conversations": "openai",
    "openai_responses": "openai",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "google_interactions": "google",
    "vertex": "google",
    "xai": "x-ai",
}
"""Names of providers in ``genai-prices``."""

_INPUT_BUCKETS: Final = (
    "input_tokens",
    "cache_write_tokens",
    "cache_write_long_tokens",
    "input_audio_tokens",
)
_OUTPUT_BUCKETS: Final = ("output_tokens", "reasoning_tokens", "output_audio_tokens")
_HOUR_SECONDS: Final = 3600

_SOURCES_WITH_PATHS: Final = frozenset({"anthropic", "aws", "google"})
"""Sources for which the part of a model's name before the last slash is a location."""

OWN_MACHINES: Final = frozenset({"llamacpp", "local", "ollama", "scripted", "tei", "vllm"})
"""Providers that run on the user's machine and do not charge."""


@frozen(kw_only=True)
class BucketPrice:
    """Cost of one bucket: the tokens, and the amount for all of them."""

    bucket: str
    tokens: int
    amount: Decimal


@frozen(kw_only=True)
class Price:
    """Cost of a response, if known.

    Attributes:
        amount: The sum of the buckets, exact.
        currency: Code of the currency, three letters.
        buckets: Used buckets that have a price.
        unpriced: Buckets without a price that were used, or whose use is unknown; ``requests`` if
            the vendor charges per request. If empty, the amount is the whole price.
        source: The source of the prices, with its version.
        date: The day for which the prices are valid.
    """

    amount: Decimal
    currency: str = "USD"
    buckets: tuple[BucketPrice, ...] = ()
    unpriced: tuple[str, ...] = ()
    source: str = ""
    date: date

    @property
    def is_complete(self) -> bool:
        """True if nothing is missing from the amount."""
        return not self.unpriced


@frozen
class Unpriced:
    """Unknown cost, which is not a cost of zero.

    Attributes:
        reason: The reason, in one sentence.
    """

    reason: str

    def __str__(self) -> str:
        return f"unpriced: {self.reason}"


PriceResult: TypeAlias = Price | Unpriced


def price_usage(
    usage: Usage | None,
    *,
    provider: str,
    model: str,
    at: datetime | None = None,
    tier: str = "",
) -> PriceResult:
    """Return the cost of one response.

    Args:
        usage: Usage of one response: the price of a token can depend on the length of its request.
        provider: The name of the provider, such as ``anthropic``.
        model: The model that answered, as the vendor names it.
        at: The time; now by default. A time without a zone is UTC.
        tier: ``batch`` for an answer of the vendor's own batches; empty for the standard tier.
    """
    if tier:
        return _price_tier(
            tier, price_usage(usage, provider=provider, model=model, at=at), provider
        )
    if provider in OWN_MACHINES:
        return Unpriced(f"{provider} runs on your own machine, which sends no bill.")
    if usage is None or all(getattr(usage, bucket) is None for bucket in _BUCKETS):
        return Unpriced("The vendor did not report how many tokens were used.")
    source = _SOURCES.get(provider)
    if source in _SOURCES_WITH_PATHS:
        model = model.rpartition("/")[2]
    if source == "anthropic" and "anthropic." in model:
        source = "aws"  # the reseller sets the price
    if source is None:
        return Unpriced(f"No prices are known for the provider {provider!r}.")
    moment = _ensure_utc(at)
    try:
        prices, version = _find_prices(source, model, moment)
    except ImportError:
        return Unpriced(f"Prices need genai-prices. {advise_extra('prices', 'genai-prices')}")
    except LookupError:
        return Unpriced(f"No price is known for the model {model!r} of {provider}.")
    priced, unpriced = _price_buckets(usage, prices)
    if not priced:
        return Unpriced(f"The model {model!r} of {provider} has no price per token.")
    return Price(
        amount=sum((bucket.amount for bucket in priced), Decimal(0)),
        buckets=priced,
        unpriced=unpriced,
        source=f"genai-prices {version}",
        date=moment.date(),
    )


def _price_tier(tier: str, standard: PriceResult, provider: str) -> PriceResult:
    """Compute the price of a tier from the standard price."""
    discount = BATCH_DISCOUNTS.get(provider) if tier == "batch" else None
    if isinstance(standard, Unpriced):
        return standard
    if discount is None:
        return Unpriced(f"No price is known for the tier {tier!r} of {provider}.")
    buckets = (attrs.evolve(each, amount=each.amount * discount.share) for each in standard.buckets)
    return attrs.evolve(
        standard,
        amount=standard.amount * discount.share,
        buckets=tuple(buckets),
        source=f"{standard.source}, {discount.share:.0%} as of {discount.source} ({discount.read})",
    )


def find_dearest(
    provider: str, model: str, input_tokens: int, *, has_output: bool = True
) -> tuple[Decimal, Decimal] | None:
    """Return the maximum prices, in US dollars, of a token of input and one of output.

    Args:
        input_tokens: Maximum length of the request; tokens of longer requests are never cheaper.
        has_output: Whether the model generates tokens; an embedder does not.

    Returns:
        ``None`` if no price is known.
    """
    # Prices change daily.
    hour = int(time.time() // _HOUR_SECONDS)
    rates = _find_rates(provider, model, 1 << input_tokens.bit_length(), hour)
    if rates is None:
        return None
    input_rate, output_rate = rates
    if not has_output:
        return input_rate, Decimal(0)
    return None if output_rate is None else (input_rate, output_rate)


@lru_cache(1024)
def _find_rates(
    provider: str, model: str, input_tokens: int, hour: int
) -> tuple[Decimal, Decimal | None] | None:
    def find_rate(bucket: str, *, tokens: int, **other_tokens: int) -> Decimal | None:
        """Return the price of one token of a bucket, from the price of a whole request."""
        usage = Usage(**{bucket: tokens}, **other_tokens)  # type: ignore[arg-type]  # all are counts
        price = price_usage(usage, provider=provider, model=model)
        for part in price.buckets if isinstance(price, Price) else ():
            if part.bucket == bucket:
                return part.amount / part.tokens
        return None

    inputs = [find_rate(bucket, tokens=input_tokens) for bucket in _INPUT_BUCKETS]
    outputs = [find_rate(bucket, tokens=1, input_tokens=input_tokens) for bucket in _OUTPUT_BUCKETS]
    images = [_find_image_rate(provider, model, bucket) for bucket in _IMAGE_RATES]
    known_inputs = [each for each in (*inputs, images[0]) if each is not None]
    known_outputs = [each for each in (*outputs, images[1]) if each is not None]
    if inputs[0] is None:
        return None
    return max(known_inputs), None if outputs[0] is None else max(known_outputs)


def _find_image_rate(provider: str, model: str, bucket: str) -> Decimal | None:
    """Return the price of one token of an image in a bucket, if it has a price of its own."""
    native = f'{{"{bucket}_details": {{"image_tokens": 1}}}}'
    counts: dict[str, Any] = {bucket: 1}
    usage = Usage(native=native, **counts)
    price = price_usage(usage, provider=provider, model=model)
    parts = price.buckets if isinstance(price, Price) else ()
    return next((part.amount for part in parts if "image" in part.bucket), None)


def _price_buckets(
    usage: Usage, prices: ModelPrice
) -> tuple[tuple[BucketPrice, ...], tuple[str, ...]]:
    total_input = usage.total_input_tokens or 0
    priced: list[BucketPrice] = []
    unpriced: list[str] = []
    for bucket, keys in _BUCKETS.items():
        tokens = getattr(usage, bucket)
        if tokens is None:
            # Every response has input and output, but not all other buckets.
            if bucket in ("input_tokens", "output_tokens"):
                unpriced.append(bucket)
            continue
        if image_tokens := _count_image_tokens(usage, bucket, prices):
            tokens -= image_tokens
            image_rate = next(_access_rates(prices, (_IMAGE_RATES[bucket],), total_input))
            amount = image_rate * image_tokens / _MILLION
            name = bucket.replace("_tokens", "_image_tokens")
            priced.append(BucketPrice(bucket=name, tokens=image_tokens, amount=amount))
        rate = next(_access_rates(prices, keys, total_input), None)  # in dollars per million
        if rate is not None:
            amount = rate * tokens / _MILLION
            priced.append(BucketPrice(bucket=bucket, tokens=tokens, amount=amount))
        elif tokens:
            unpriced.append(bucket)
    if getattr(prices, "requests_kcount", None) is not None:
        unpriced.append("requests")
    return tuple(priced), tuple(unpriced)


def _count_image_tokens(usage: Usage, bucket: str, prices: ModelPrice) -> int:
    """Return the tokens of a bucket that are images with a price of their own.

    Only the vendor's own data tell them apart.
    """
    key = _IMAGE_RATES.get(bucket)
    if key is None or usage.native is None or getattr(prices, key, None) is None:
        return 0
    import json

    try:
        native = json.loads(usage.native)
        counts = [*_list_image_counts(native, bucket)]
    except (AttributeError, TypeError, ValueError):
        return 0
    tokens: int = getattr(usage, bucket)
    return min(sum(counts), tokens)


def _list_image_counts(native: Any, bucket: str) -> Iterator[int]:
    """Yield the counts of images in usage data of OpenAI or Google. Raises AttributeError."""
    details = native.get(f"{bucket}_details") or {}  # OpenAI's
    if isinstance(count := details.get("image_tokens"), int):
        yield count
    name = "promptTokensDetails" if bucket == "input_tokens" else "candidatesTokensDetails"
    for each in native.get(name) or ():  # Google's
        if each.get("modality") == "IMAGE":
            yield int(each.get("tokenCount", 0))


def _access_rates(prices: ModelPrice, keys: tuple[str, ...], total_input: int) -> Iterator[Decimal]:
    """Yield prices per million tokens; a long request can raise those of all its tokens."""
    for key in keys:
        price = getattr(prices, key)
        if isinstance(price, Decimal):
            yield price
        elif price is not None:
            reached = [tier.price for tier in price.tiers if total_input > tier.start]
            yield reached[-1] if reached else price.base


def _find_prices(source: str, model: str, moment: datetime) -> tuple[ModelPrice, str]:
    """Return a model's prices at a time. Raises LookupError if the model is unknown."""
    import genai_prices  # imports pydantic, a fifth of a second: only when a price is needed
    from genai_prices.data_snapshot import get_snapshot

    info = _find_model(source, model, id(get_snapshot()))
    if info is None:
        raise LookupError(model)
    return info.get_prices(moment), genai_prices.__version__


@lru_cache(256)
def _find_model(source: str, model: str, snapshot: int) -> ModelInfo | None:
    """Find a model in the current data; cached, as it takes a millisecond for an unknown one.

    Args:
        snapshot: Id of the data, so that new data are not answered from the cache.
    """
    from genai_prices.data_snapshot import get_snapshot

    try:
        return get_snapshot().find_provider_model(model, None, source, None)[1]
    except LookupError:
        return None


def _ensure_utc(moment: datetime | None) -> datetime:
    if moment is None:
        return datetime.now(UTC)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
