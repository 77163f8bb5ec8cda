"""How many tokens a picture is, by the vendors' published rules and examples."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.messages.contents import ImageContent
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.measures import ImageSize
from vibe_llms.models.pictures import apply_rule, estimate_image


def access_rule(address: str) -> JsonValue:
    catalogue = Catalogue()
    rule = catalogue.access_attributes(catalogue.resolve_address(address)).access_value(
        "image_tokens"
    )
    assert rule is not ABSENT
    return rule


@pytest.mark.parametrize(
    ("model", "size", "detail", "tokens"),
    [
        # https://developers.openai.com/api/docs/guides/images-vision
        ("openai_conversations:gpt-4o", (1024, 1024), "high", 765),
        ("openai_conversations:gpt-4o", (2048, 4096), "high", 1105),
        ("openai_conversations:gpt-4o", (4096, 4096), "low", 85),
        ("openai_conversations:o3", (1024, 1024), "auto", 75 + 4 * 150),
        ("openai_conversations:gpt-4.1-mini", (1024, 1024), "auto", 1659),
        ("openai_conversations:gpt-4.1-mini", (1800, 2400), "auto", 2353),  # 1452 patches
        # https://huggingface.co/datasets/JOHNISKING/image-token-cost: measured
        ("openai_responses:gpt-6-sol", (256, 256), "auto", 77),
        ("openai_responses:gpt-6-sol", (1920, 1080), "auto", 2448),
        ("openai_responses:gpt-6-sol", (4032, 3024), "auto", 14_364),
        ("openai_responses:gpt-6-sol", (3840, 2160), "high", 2931),
        ("openai_responses:gpt-6-sol", (4032, 3024), "high", 2942),
        ("openai_responses:gpt-5.5", (4032, 3024), "auto", 11_868),
        # https://platform.claude.com/docs/en/build-with-claude/vision
        ("anthropic:claude-opus-5-5", (1000, 1000), "auto", 1296),
        ("anthropic:claude-opus-5-5", (1920, 1080), "auto", 2691),
        ("google:gemini-2.5-flash", (384, 200), "auto", 258),
        ("google:gemini-2.5-flash", (1536, 768), "auto", 516),
        ("google:gemini-3.8-flash", (4032, 3024), "auto", 1120),
    ],
)
def test_the_vendors_own_examples_come_out(
    model: str, size: tuple[int, int], detail: str, tokens: int
) -> None:
    """What a vendor publishes, or somebody measured, is inside the bound, and here exact."""
    rule = access_rule(model)
    assert isinstance(rule, dict)

    count = apply_rule(rule, ImageSize(*size), detail)

    assert abs(count.tokens - tokens) <= max(1, tokens // 100)
    assert count.error_tokens > 0


@pytest.mark.parametrize(
    ("model", "size", "measured"),
    [
        ("anthropic:claude-opus-5-5", (2560, 1440), 3069 - 77),
        ("anthropic:claude-opus-5-5", (4032, 3024), 4005 - 77),
        ("anthropic:claude-haiku-4-5", (1920, 1080), 1625 - 65),
        ("anthropic:claude-haiku-4-5", (2560, 1440), 1657 - 65),
        ("anthropic:claude-haiku-4-5", (4032, 3024), 1661 - 65),
        ("google:gemini-3.8-flash", (4032, 3024), 1065),
        ("google:gemini-3.8-flash", (1920, 1080), 1101),
    ],
)
def test_what_was_measured_lies_inside_the_bound(
    model: str, size: tuple[int, int], measured: int
) -> None:
    """Where the vendor does not say how it shrinks a picture, the bound says how little is sure."""
    rule = access_rule(model)
    assert isinstance(rule, dict)

    count = apply_rule(rule, ImageSize(*size))

    assert abs(count.tokens - measured) <= count.error_tokens


@given(st.integers(1, 20_000), st.integers(1, 20_000), st.sampled_from(["auto", "high", "low"]))
def test_no_picture_exceeds_the_budget_of_its_model(width: int, height: int, detail: str) -> None:
    """However long and thin it is."""
    rule = {"rule": "patches", "size": 28, "budget": 4784, "edge": 2576, "low_edge": 512}

    count = apply_rule(rule, ImageSize(width, height), detail)

    assert 1 <= count.tokens <= 4784


def test_a_picture_of_unknown_size_may_be_any() -> None:
    """At a URL, or held by the vendor: the bound reaches down to nothing."""
    content = ImageContent(mime_type="image/png", url="https://example.org/a.png")
    rule = access_rule("openai_conversations:gpt-4o")

    count = estimate_image(content, rule)

    assert count.error_tokens >= count.tokens > 0


def test_without_a_rule_the_size_gives_a_guess() -> None:
    """Larger pictures are more, up to what most vendors shrink them to."""
    data = b"GIF89a" + struct.pack("<HH", 600, 500)

    known = estimate_image(ImageContent(mime_type="image/gif", data=data), ABSENT)
    unknown = estimate_image(ImageContent(mime_type="image/gif", data=b"?"), {"rule": "new"})

    assert known.tokens == 400
    assert known.error_tokens >= known.tokens
    assert unknown.error_tokens >= unknown.tokens > 0
