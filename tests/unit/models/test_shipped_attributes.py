"""The data about models that ship with the package."""

from __future__ import annotations

import datetime
import subprocess
import sys

import pytest

from vibe_llms.absence import ABSENT
from vibe_llms.models import Capability, Catalogue, Layer, check_controls

PROVIDERS = Catalogue().survey_providers()


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
    assert (provenance.layer, provenance.name) == (Layer.FAMILY, "claude-5")


@pytest.mark.parametrize("model", ["claude-opus-4-20250514", "claude-3-5-haiku-20241022"])
def test_an_old_claude_is_not_taken_for_a_new_one(model: str) -> None:
    """A date in a name is no generation, and what was not read is unknown."""
    catalogue = Catalogue()

    attributes = catalogue.access_attributes(catalogue.resolve_address(model))

    assert attributes.access_value("context_window_tokens") is ABSENT
    assert attributes.access_capability("supports_images") is Capability.UNKNOWN
    assert attributes.access_capability("supports_invocations") is Capability.YES


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


def test_the_package_loads_its_names_on_demand() -> None:
    """Importing the package reads no data and loads none of its modules."""
    code = (
        "import sys, vibe_llms.models\n"
        "assert not [n for n in sys.modules if n.startswith('vibe_llms.models.')]\n"
        "assert 'attrs' not in sys.modules and 'tomli' not in sys.modules\n"
        "for name in vibe_llms.models.__all__: getattr(vibe_llms.models, name)\n"
        "assert sorted(vibe_llms.models.__all__) == dir(vibe_llms.models)\n"
    )

    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (finished.returncode, finished.stderr) == (0, "")
