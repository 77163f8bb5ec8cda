"""What a response cost."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import attrs
import pytest
from genai_prices import Usage as TheirUsage
from genai_prices import calc_price
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.messages.canisters import INPUT_BUCKETS, OUTPUT_BUCKETS, Usage
from vibe_llms.telemetry.prices import (
    Price,
    PriceResult,
    Unpriced,
    find_dearest,
    price_usage,
)

OPUS = {"provider": "anthropic", "model": "claude-opus-5-5"}
BUCKETS = (*INPUT_BUCKETS, *OUTPUT_BUCKETS)
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)

counts = st.none() | st.integers(0, 5_000_000)
usages = st.builds(Usage, **dict.fromkeys(BUCKETS, counts))
full_usages = st.builds(Usage, **dict.fromkeys(BUCKETS, st.integers(0, 5_000_000)))
models = st.sampled_from(
    [
        ("anthropic", "claude-opus-5-5"),
        ("anthropic", "claude-haiku-5-5"),
        ("openai_responses", "gpt-6-sol"),
        ("openai_conversations", "gpt-audio"),
        ("google", "gemini-3.8-flash"),
        ("deepseek", "deepseek-v4-pro"),
        ("perplexity", "sonar-deep-research"),
        ("xai", "grok-4.7"),
    ]
)


def require(result: PriceResult) -> Price:
    assert isinstance(result, Price), result
    return result


def test_each_bucket_has_its_own_price() -> None:
    """Reads, both kinds of writes and reasoning of Opus 5.5, by the vendor's list."""
    usage = Usage(
        input_tokens=1_000_000,
        cache_read_tokens=1_000_000,
        cache_write_tokens=1_000_000,
        cache_write_long_tokens=1_000_000,
        output_tokens=1_000_000,
        reasoning_tokens=1_000_000,
    )

    price = require(price_usage(usage, **OPUS))

    assert {each.bucket: each.amount for each in price.buckets} == {
        "input_tokens": Decimal(4),
        "cache_read_tokens": Decimal("0.2"),
        "cache_write_tokens": Decimal(5),
        "cache_write_long_tokens": Decimal(8),
        "output_tokens": Decimal(20),
        "reasoning_tokens": Decimal(20),
    }
    assert price.amount == Decimal("57.2")
    assert price.currency == "USD"
    assert price.is_complete
    assert price.source.startswith("genai-prices ")


@pytest.mark.parametrize(("tokens", "amount"), [(100_000, "0.01"), (100_001, "0.0500005")])
def test_a_long_request_makes_all_its_tokens_dearer(tokens: int, amount: str) -> None:
    """Haiku 5.5 has a second price above 100,000 tokens of input, for the whole request."""
    usage = Usage(input_tokens=tokens, output_tokens=0)

    price = require(price_usage(usage, provider="anthropic", model="claude-haiku-5-5"))

    assert price.amount == Decimal(amount)


def test_the_tier_is_that_of_all_input_whatever_its_bucket() -> None:
    """What was read from a cache counts towards the length of the request."""
    usage = Usage(input_tokens=1_000_000, cache_read_tokens=0, output_tokens=0)
    split = attrs.evolve(usage, input_tokens=50_000, cache_read_tokens=60_000)
    model = {"provider": "anthropic", "model": "claude-haiku-5-5"}

    long, mixed = (require(price_usage(each, **model)) for each in (usage, split))

    rates = [each.buckets[0].amount / each.buckets[0].tokens for each in (long, mixed)]
    assert rates[0] == rates[1] == Decimal("0.5") / 1_000_000


def test_the_day_decides_the_price() -> None:
    """Opus 4.6 charged more for long requests until March 2026."""
    usage = Usage(input_tokens=300_000, output_tokens=0)
    model = {"provider": "anthropic", "model": "claude-opus-4-6"}

    before = require(price_usage(usage, at=datetime(2026, 3, 1), **model))
    after = require(price_usage(usage, at=datetime(2026, 4, 1), **model))

    assert (before.amount, after.amount) == (Decimal(3), Decimal("1.5"))
    assert before.date == date(2026, 3, 1)


def test_a_bucket_without_a_price_of_its_own_is_named_and_not_zero() -> None:
    """The sum is of what is known, and says what it lacks."""
    usage = Usage(input_tokens=10, input_audio_tokens=5, output_tokens=0)

    price = require(price_usage(usage, **OPUS))

    assert price.unpriced == ("input_audio_tokens",)
    assert not price.is_complete
    assert price.amount == Decimal("0.00004")


@pytest.mark.parametrize(
    ("provider", "model", "amount"),
    [
        ("bedrock", "global.anthropic.claude-opus-5-5", "4"),
        ("bedrock", "eu.anthropic.claude-opus-5-5", "4.4"),
        ("anthropic", "us.anthropic.claude-opus-5-5", "4.4"),
        (
            "bedrock",
            "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-5-5",
            "4.4",
        ),
        ("vertex", "publishers/google/models/gemini-3.8-flash", None),
        ("google", "models/gemini-3.8-flash", None),
    ],
)
def test_a_model_of_a_cloud_has_the_price_of_its_region(
    provider: str, model: str, amount: str | None
) -> None:
    """A region is dearer than the world; what stands before a name is no hindrance."""
    usage = Usage(input_tokens=1_000_000, output_tokens=0)
    usual = require(price_usage(usage, provider="google", model="gemini-3.8-flash"))

    price = require(price_usage(usage, provider=provider, model=model))

    assert price.amount == (usual.amount if amount is None else Decimal(amount))


def test_what_the_vendor_did_not_say_is_named() -> None:
    """Without a word about output the price is of the input alone, and says so."""
    price = require(price_usage(Usage(input_tokens=10), **OPUS))

    assert price.unpriced == ("output_tokens",)


def test_a_fee_by_the_request_is_named() -> None:
    """Perplexity asks for each request besides the tokens."""
    usage = Usage(input_tokens=1, output_tokens=1)

    price = require(price_usage(usage, provider="perplexity", model="sonar"))

    assert price.unpriced == ("requests",)


@pytest.mark.parametrize(
    ("usage", "provider", "model", "reason"),
    [
        (None, "anthropic", "claude-opus-5-5", "did not report"),
        (Usage(), "anthropic", "claude-opus-5-5", "did not report"),
        (Usage(input_tokens=1), "anthropic", "claude-of-tomorrow", "No price is known"),
        (Usage(input_tokens=1), "parrots", "polly", "No prices are known"),
        (Usage(input_tokens=1), "ollama", "qwen3", "your own machine"),
        (Usage(input_tokens=1), "vllm", "qwen3", "your own machine"),
        (Usage(input_tokens=1), "llamacpp", "qwen3", "your own machine"),
        (Usage(input_tokens=1), "google", "gemma-3-27b-it", "no price per token"),
    ],
)
def test_unpriced_is_never_zero(
    usage: Usage | None, provider: str, model: str, reason: str
) -> None:
    """Where nothing is known there is no amount at all, and a reason."""
    result = price_usage(usage, provider=provider, model=model)

    assert isinstance(result, Unpriced)
    assert reason in result.reason


@given(usages, models)
def test_the_buckets_add_up_and_none_is_lost(usage: Usage, model: tuple[str, str]) -> None:
    """The amount is the sum; every used bucket is either priced or named as unpriced."""
    result = price_usage(usage, provider=model[0], model=model[1], at=NOON)

    if isinstance(result, Unpriced):
        # Cache and sound alone can be all that the vendor told of.
        assert usage.input_tokens is None
        assert usage.output_tokens is None
        return
    assert result.amount == sum(each.amount for each in result.buckets)
    priced = {each.bucket: each.tokens for each in result.buckets}
    for bucket in BUCKETS:
        tokens = getattr(usage, bucket)
        if tokens is not None and bucket in priced:
            assert priced[bucket] == tokens
        assert not tokens or (bucket in priced) is not (bucket in result.unpriced)


@given(full_usages, full_usages)
def test_adding_usages_adds_prices(first: Usage, second: Usage) -> None:
    """Buckets are disjoint: at a price without steps nothing is counted twice."""
    prices = [require(price_usage(each, **OPUS)) for each in (first, second, first + second)]

    assert prices[0].amount + prices[1].amount == prices[2].amount


@given(full_usages, st.sampled_from(["claude-opus-5-5", "claude-haiku-5-5"]))
def test_the_sum_is_what_the_source_itself_reckons(usage: Usage, model: str) -> None:
    """Its own arithmetic, which counts overlapping buckets, comes to the same amount."""
    usage = attrs.evolve(usage, input_audio_tokens=0, output_audio_tokens=0)
    theirs = TheirUsage(
        input_tokens=usage.total_input_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=(usage.cache_write_tokens or 0) + (usage.cache_write_long_tokens or 0),
        cache_write_1h_tokens=usage.cache_write_long_tokens,
        output_tokens=usage.total_output_tokens,
    )

    price = require(price_usage(usage, provider="anthropic", model=model, at=NOON))

    expected = calc_price(theirs, model, provider_id="anthropic", genai_request_timestamp=NOON)
    assert price.amount == expected.total_price


def test_nothing_heavy_is_imported_before_a_price_is_asked_for() -> None:
    """The source of the prices brings pydantic and a client for HTTP."""
    code = (
        "import sys, vibe_llms.telemetry.prices as prices\n"
        "prices.price_usage(None, provider='anthropic', model='x')\n"
        "assert not {'genai_prices', 'pydantic', 'httpx2'} & set(sys.modules)\n"
        "sys.modules['genai_prices'] = None\n"
        "from vibe_llms.messages.canisters import Usage\n"
        "said = prices.price_usage(Usage(input_tokens=1), provider='anthropic', model='x')\n"
        "assert '-m pip install \"genai-prices' in said.reason, said\n"
    )

    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.parametrize(
    ("provider", "model", "native", "images"),
    [
        (
            "google",
            "gemini-3-pro-image-preview",
            '{"candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 1120}]}',
            {"output_image_tokens": Decimal("0.1344")},
        ),
        (
            "openai",
            "gpt-image-2.5-sunburst",
            '{"input_tokens_details": {"image_tokens": 100, "text_tokens": 20}}',
            {"input_image_tokens": Decimal("0.0008")},
        ),
        ("google", "gemini-3-pro-image-preview", "no JSON", {}),
        ("google", "gemini-3-pro-image-preview", '{"candidatesTokensDetails": [3]}', {}),
    ],
)
def test_images_within_a_bucket_have_their_own_price(
    provider: str, model: str, native: str, images: dict[str, Decimal]
) -> None:
    """They cost many times what text costs, and only the vendor's own data tell them apart."""
    usage = Usage(input_tokens=120, output_tokens=1200, native=native)

    price = require(price_usage(usage, provider=provider, model=model))

    parts = {each.bucket: each.amount for each in price.buckets}
    assert {name: amount for name, amount in parts.items() if "image" in name} == images
    assert sum(each.tokens for each in price.buckets) == 1320
    assert price.amount == sum(parts.values())


def test_an_estimate_counts_the_most_for_images() -> None:
    assert find_dearest("google", "gemini-3-pro-image-preview", 100) == (
        Decimal("0.000002"),
        Decimal("0.00012"),
    )
