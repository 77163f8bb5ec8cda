"""The data about models that ship with the package."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import pytest

from vibe_llms.foundation.sentinels import ABSENT, is_absent
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import AttributeLayer, Capability
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.controls import check_controls
from vibe_llms.models.keys import KeyRole, classify_key
from vibe_llms.models.measures import ImageSize
from vibe_llms.models.pictures import apply_rule
from vibe_llms.models.retirement import find_retirement

PROVIDERS = Catalogue().survey_providers()

OPENAI = """
    gpt-6.2-sol gpt-6-luna gpt-5.6-sol gpt-5.5-pro gpt-5.4 gpt-5.4-mini gpt-5.3-chat-latest gpt-5.2
    gpt-5.1 gpt-5 gpt-5-nano gpt-4.1 gpt-4.1-mini gpt-4o gpt-4o-mini gpt-audio-mini o3 o4-mini
    gpt-4-turbo text-embedding-3-small omni-moderation-latest
    gpt-image-2.5-sunburst gpt-4o-mini-tts gpt-4o-transcribe
"""
TOLD = {
    "anthropic": """
        claude-fable-5-2 claude-mythos-5-2 claude-haiku-5-5 claude-opus-5 claude-opus-4-8
        claude-sonnet-4-6 claude-haiku-4-5-20251001 claude-opus-4-5 claude-opus-4-20250514
        claude-3-haiku-20240307
    """,
    "openai_conversations": OPENAI,
    "openai_responses": OPENAI,
    "google": """
        gemini-4-argon gemini-3.8-flash gemini-3-flash-preview gemini-2.5-flash
        gemini-2.5-flash-lite gemini-2.5-flash-image gemini-3.8-flash-tts gemini-embedding-2
    """,
    "perplexity": "sonar sonar-pro sonar-reasoning-pro sonar-deep-research",
    "deepseek": "deepseek-flash deepseek-v4-flash deepseek-v4-pro deepseek-chat",
    "groq": "openai/gpt-oss-120b qwen/qwen3-32b whisper-large-v3 playai-tts",
    "mistral": """
        mistral-large-4 mistral-small-2603 codestral-2508 voxtral-mini-transcribe-3-0
    """,
    "xai": """
        grok-4.7 grok-4.3 grok-4-0709 grok-4-1-fast-reasoning grok-4-1-fast
        grok-4-1-fast-non-reasoning grok-imagine-image
    """,
}
MODELS = {provider: names.split() for provider, names in TOLD.items()}
"""Current models by vendor: those that the installed SDKs, genai-prices and manuals name."""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_shipped_value_names_its_source_and_date(provider: str) -> None:
    """No value is without the place and the day where it was read."""
    rules = Catalogue().access_integrator(provider).rules

    said = [rule.trace(key) for rule in rules for key in (*rule.values, *rule.controls)]
    assert said
    for provenance in said:
        assert provenance.source, provenance
        assert datetime.date.fromisoformat(provenance.date) <= datetime.date.today()


def test_the_shipped_providers_are_those_of_the_map() -> None:
    """The two that run everywhere have data and a default model."""
    catalogue = Catalogue()

    assert {"local", "scripted"} <= set(PROVIDERS)
    assert str(catalogue.resolve_address("local")) == "local:smollm2"
    assert str(catalogue.resolve_address("scripted")).startswith("scripted:")
    assert str(catalogue.resolve_address("smollm2")) == "local:smollm2"


def test_a_claude_that_nobody_has_met_inherits_its_family() -> None:
    """``claude-sonnet-9`` is known to take pictures and no temperature, without a release."""
    catalogue = Catalogue()

    attributes = catalogue.access_attributes(catalogue.resolve_address("claude-sonnet-9"))

    assert attributes.address.provider == "anthropic"
    assert attributes.access_value("context_window_tokens") == 1_000_000
    assert attributes.access_capability("supports_images") is Capability.YES
    assert attributes.access_control("temperature") is None
    provenance = attributes.access_provenance("context_window_tokens")
    assert provenance is not None
    assert (provenance.layer, provenance.name) == (AttributeLayer.FAMILY, "anthropic/claude-5")


@pytest.mark.parametrize(
    ("address", "as_address"),
    [
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("eu.anthropic.claude-opus-4-8", "claude-opus-4-8"),
        ("apac.anthropic.claude-3-haiku-20240307-v1:0", "claude-3-haiku-20240307"),
        ("us-gov.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("global.anthropic.claude-opus-5", "claude-opus-5"),
        ("anthropic.claude-opus-5", "claude-opus-5"),
        (
            "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-5",
            "claude-opus-5",
        ),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("publishers/anthropic/models/claude-opus-5@20260101", "claude-opus-5"),
        ("publishers/google/models/gemini-3.8-flash", "gemini-3.8-flash"),
        ("models/gemini-2.5-flash", "gemini-2.5-flash"),
    ],
)
def test_a_model_of_a_cloud_is_known_by_whatever_stands_before_its_name(
    address: str, as_address: str
) -> None:
    """A region, a cloud's word for the maker, the name of a profile, the path of a resource."""
    provider = "google" if "gemini" in address else "anthropic"
    integrator = Catalogue().access_integrator(provider)

    given, known = integrator.integrate(address), integrator.integrate(as_address)

    assert given.controls == known.controls
    assert given.capabilities == known.capabilities
    assert given.access_value("context_window_tokens") is not ABSENT
    assert given.address.name == address


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_shipped_control_is_in_the_key_table(provider: str) -> None:
    """One name means one thing at every vendor, and the manual explains it."""
    rules = Catalogue().access_integrator(provider).rules

    named = {name for rule in rules for name in rule.controls}
    assert {name: classify_key(name) for name in named} == dict.fromkeys(named, KeyRole.CONTROL)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_shipped_pattern_yields_attributes_that_hold(provider: str) -> None:
    """Each family can be integrated, alone and with what the families before it said."""
    integrator = Catalogue().access_integrator(provider)

    for model in MODELS.get(provider, ["anything"]):
        attributes = integrator.integrate(model)
        check_controls(attributes.control_defaults, attributes.controls)
        rule = attributes.access_value("image_tokens")
        if not is_absent(rule):
            assert isinstance(rule, Mapping)
            assert apply_rule(rule, ImageSize(800, 600)).tokens > 50


@pytest.mark.parametrize("provider", sorted(MODELS))
def test_every_shipped_family_has_a_current_model(provider: str) -> None:
    """A pattern that matches none of the vendor's models is a slip of the pen."""
    rules = Catalogue().access_integrator(provider).rules
    patterns = [r.pattern for r in rules if r.pattern and "end_date" not in r.values]

    idle = [p.text for p in patterns if not any(p.is_found_in(m) for m in MODELS[provider])]
    assert not idle


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_model_that_is_offered_was_retired_when_the_data_were_read(provider: str) -> None:
    """Nor is the successor of any other."""
    integrator = Catalogue().access_integrator(provider)
    names = set(integrator.survey_models())
    for rule in integrator.rules:
        successor = rule.values.get("successor")
        names |= {successor} if isinstance(successor, str) else set()

    for name in names:
        end = find_retirement(integrator.integrate(name))
        assert end is None or not end.is_over(datetime.date(2026, 11, 28)), name


@pytest.mark.parametrize(
    ("address", "end"),
    [
        ("anthropic:claude-3-5-sonnet-20241022", ("2025-10-28", "claude-sonnet-4-6")),
        ("openai_conversations:o1-preview", ("2025-07-28", "gpt-5.6-sol")),
        ("openai_responses:gpt-5-mini-2025-08-07", ("2026-12-11", "gpt-6.1-terra")),
        ("google:models/gemini-2.0-flash", ("2026-06-01", "gemini-3.5-flash")),
        # Other clouds retire them on other days.
        ("anthropic:eu.anthropic.claude-3-haiku-20240307-v1:0", None),
        ("anthropic:claude-sonnet-4-6", None),
    ],
)
def test_a_retired_model_has_an_end_and_a_successor(
    address: str, end: tuple[str, str] | None
) -> None:
    found = find_retirement(Catalogue().access_attributes(ModelAddress.parse(address)))

    assert (found and (found.end.isoformat(), found.successor)) == end


@pytest.mark.parametrize(
    ("address", "window", "controls", "missing"),
    [
        ("anthropic:claude-opus-4-8", 1_000_000, {"reasoning_effort"}, {"temperature", "top_k"}),
        ("anthropic:claude-haiku-4-5", 200_000, {"reasoning_budget_tokens", "top_k"}, {"seed"}),
        ("openai_conversations:gpt-4.1", 1_000_000, {"temperature", "stop"}, {"verbosity"}),
        ("openai_conversations:o3", 200_000, {"reasoning_effort"}, {"temperature", "stop"}),
        ("openai_responses:gpt-6.2-sol", 1_050_000, {"verbosity"}, {"temperature", "stop"}),
        ("openai_responses:gpt-5-mini", 400_000, {"reasoning_summary"}, {"top_p"}),
        ("openai_responses:gpt-5.2", 400_000, {"temperature", "top_p"}, {"presence_penalty"}),
        ("openai_responses:gpt-5-chat-latest", 400_000, {"temperature"}, {"reasoning_effort"}),
        ("google:gemini-3.8-flash", 1_048_576, {"reasoning_effort"}, {"reasoning_budget_tokens"}),
        ("google:gemini-2.5-flash", 1_048_576, {"reasoning_budget_tokens"}, {"reasoning_effort"}),
        ("xai:grok-4.7", 500_000, {"reasoning_effort"}, {"stop", "presence_penalty"}),
        ("deepseek:deepseek-flash", 1_000_000, {"reasoning_effort"}, {"seed"}),
    ],
)
def test_a_current_model_has_the_controls_that_its_vendor_takes(
    address: str, window: int, controls: set[str], missing: set[str]
) -> None:
    """The controls of a family follow the vendor's rules, not the protocol's whole list."""
    catalogue = Catalogue()

    attributes = catalogue.access_attributes(catalogue.resolve_address(address))

    names = {control.name for control in attributes.controls}
    assert attributes.access_value("context_window_tokens") == window
    assert controls <= names
    assert not missing & names


def test_only_anthropic_insists_on_a_length() -> None:
    """No other vendor is sent a value that nobody asked for, save what runs in this process."""
    catalogue = Catalogue()

    given = {
        provider: dict(catalogue.access_integrator(provider).integrate("x").control_defaults)
        for provider in PROVIDERS
        if provider not in ("local", "scripted")
    }

    assert given.pop("anthropic") == {"max_tokens": 21_333}
    assert not any(given.values())


@pytest.mark.parametrize("model", ["claude-opus-4-20250514", "claude-3-5-haiku-20241022"])
def test_an_old_claude_is_not_taken_for_a_new_one(model: str) -> None:
    """A date in a name is no generation: it keeps its window, and its temperature."""
    catalogue = Catalogue()

    attributes = catalogue.access_attributes(catalogue.resolve_address(model))

    assert attributes.access_value("context_window_tokens") == 200_000
    assert attributes.access_value("output_limit_tokens") is ABSENT
    assert attributes.access_control("temperature") is not None
    assert attributes.access_capability("supports_continuation") is Capability.UNKNOWN


@pytest.mark.parametrize(
    ("model", "takes_both"),
    [
        ("claude-opus-4-1-20250805", Capability.NO),
        ("claude-sonnet-4-5", Capability.NO),
        ("claude-haiku-4-5-20251001", Capability.NO),
        ("claude-sonnet-4-6", Capability.NO),
        ("claude-opus-4-20250514", Capability.UNKNOWN),
        ("claude-3-5-haiku-20241022", Capability.UNKNOWN),
    ],
)
def test_who_takes_one_way_of_choosing_words_is_known(model: str, takes_both: Capability) -> None:
    """Of Claude since 4.1, as long as there was a choice."""
    catalogue = Catalogue()

    attributes = catalogue.access_attributes(catalogue.resolve_address(f"anthropic:{model}"))

    assert attributes.access_capability("supports_temperature_with_top_p") is takes_both


def test_the_small_model_cannot_take_a_picture_and_says_how_much_it_reads() -> None:
    """The shipped model refuses pictures; any other weights are unknown, not refused."""
    catalogue = Catalogue()

    small = catalogue.access_attributes(catalogue.resolve_address("local"))
    other = catalogue.access_attributes(catalogue.resolve_address("local:/some/other.gguf"))

    assert small.access_value("context_window_tokens") == 8192
    assert small.access_capability("supports_images") is Capability.NO
    assert other.access_value("context_window_tokens") is ABSENT
    assert other.access_capability("supports_images") is Capability.UNKNOWN


def test_the_local_controls_are_those_that_llama_cpp_honours() -> None:
    """Each promised control takes a sensible value."""
    catalogue = Catalogue()
    values = {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.05,
        "seed": 7,
        "max_tokens": 100,
        "stop": ["END"],
        "repeat_penalty": 1.1,
    }

    attributes = catalogue.access_attributes(catalogue.resolve_address("local"))

    assert check_controls(values, attributes.controls) == values
    assert {control.name for control in attributes.controls} == set(values)


def test_the_small_model_is_asked_as_its_makers_do() -> None:
    """At llama.cpp's own temperature it loses the thread; other weights keep that default."""
    catalogue = Catalogue()

    defaults = [
        {
            control.name: control.default
            for control in catalogue.access_attributes(catalogue.resolve_address(name)).controls
            if control.name in ("temperature", "top_p")
        }
        for name in ("local", "local:/some/other.gguf")
    ]

    assert defaults == [{"temperature": 0.2, "top_p": 0.9}, {"temperature": 0.8, "top_p": 0.95}]


def test_a_script_can_do_everything() -> None:
    """No capability of the scripted provider is missing or unknown."""
    catalogue = Catalogue()

    attributes = catalogue.access_attributes(catalogue.resolve_address("scripted"))

    assert set(attributes.capabilities.values()) == {Capability.YES}
