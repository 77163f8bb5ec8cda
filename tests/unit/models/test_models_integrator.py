"""How rules of several layers make the attributes of one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from vibe_llms.exceptions import ConfigurationError, UnknownNameError
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.models.attributes import AttributeLayer, Capability, ModelAttributes
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.controls import IntervalControl
from vibe_llms.models.folders import Overrides
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.models.rules import Rule, RuleReader
from vibe_llms.tables.reading import TableReader, locate_by_name

AS_REQUIRED = """
# Provider-level defaults
[defaults]
temperature = 1.0

# Family pattern for all Claude models
[[models]]
pattern = "^claude-.*$"
max_tokens = 4096
supports_tools = true

# Specific model override
[[models]]
pattern = "^claude-opus-.*$"
max_tokens = 8192  # Opus models get higher limit
"""


def produce_rule(layer: AttributeLayer, **table: Any) -> Rule:
    tables = TableReader(locate_by_name())
    rule = RuleReader(place=f"{layer}.toml", tables=tables).read(table, layer)
    assert not tables.findings
    return rule


def integrate(tmp_path: Path, text: str, model: str, user: str = "") -> ModelAttributes:
    folder = tmp_path / "vendor"
    folder.mkdir(exist_ok=True)
    (folder / "attributes.toml").write_text(text, encoding="utf-8")
    overrides = (Overrides(place="config.toml", table=tomli.loads(user), text=user),)
    catalogue = Catalogue(directory=tmp_path, overrides=overrides)
    return catalogue.access_integrator("vendor").integrate(model)


def test_a_new_name_inherits_its_family_without_a_release(tmp_path: Path) -> None:
    """The file of the requirement works as written, for a model that nobody had heard of."""
    attributes = integrate(tmp_path, AS_REQUIRED, "claude-sonnet-9")

    assert attributes.control_defaults == {"temperature": 1.0, "max_tokens": 4096}
    assert attributes.access_capability("supports_invocations") is Capability.YES
    assert attributes.access_capability("supports_tools") is Capability.YES


def test_a_later_family_overrides_an_earlier_one(tmp_path: Path) -> None:
    """Families speak in the order of the file, and the explanation keeps what was overridden."""
    attributes = integrate(tmp_path, AS_REQUIRED, "claude-opus-9")

    (row,) = [row for row in attributes.explain() if row.value == {"default": 8192}]
    assert (row.key, row.layer) == ("max_tokens", "family ^claude-opus-.*$")
    assert [(earlier.value, earlier.provenance.name) for earlier in row.earlier_values] == [
        (4096, "^claude-.*$")
    ]


def test_a_model_outside_the_family_has_only_the_defaults(tmp_path: Path) -> None:
    """What no rule says is absent, and a capability that no rule names is unknown."""
    attributes = integrate(tmp_path, AS_REQUIRED, "other")

    assert attributes.control_defaults == {"temperature": 1.0}
    assert attributes.access_capability("supports_invocations") is Capability.UNKNOWN
    assert attributes.access_value("context_window_tokens") is ABSENT
    assert attributes.access_provenance("context_window_tokens") is None


def test_a_flat_default_takes_the_definition_of_the_table(tmp_path: Path) -> None:
    """A default alone makes a whole control, whose bounds then come from the key table."""
    attributes = integrate(tmp_path, AS_REQUIRED, "claude-x")

    assert attributes.access_control("max_tokens") == IntervalControl(
        name="max_tokens", minimum=1, grade=1, default=4096
    )
    provenance = attributes.access_provenance("max_tokens.minimum")
    assert provenance is not None
    assert provenance.layer is AttributeLayer.SHIPPED


LAYERS = st.sampled_from(
    [
        AttributeLayer.DEFAULT,
        AttributeLayer.FAMILY,
        AttributeLayer.MODEL,
        AttributeLayer.VENDOR,
        AttributeLayer.USER,
    ]
)


@given(st.lists(st.tuples(LAYERS, st.integers(1, 9)), min_size=1, max_size=8))
def test_the_strongest_layer_wins_and_provenance_names_it(
    said: list[tuple[AttributeLayer, int]],
) -> None:
    """Whatever the order of the files, the value is that of the last rule of the top layer."""
    rules = [produce_rule(layer, context_window_tokens=value) for layer, value in said]

    attributes = ModelsIntegrator(provider="vendor", rules=tuple(rules)).integrate("m")

    order = list(AttributeLayer)
    expected = sorted(said, key=lambda pair: order.index(pair[0]))
    (traced,) = attributes.traced_values
    assert [(t.provenance.layer, t.value) for t in traced.history] == expected[::-1]
    assert traced.provenance.file == f"{expected[-1][0]}.toml"


FIELDS = st.dictionaries(
    st.sampled_from(["minimum", "maximum"]), st.integers(1, 5), max_size=2
).map(lambda f: {**f, "minimum": min(f.values())} if f else f)
CHANGES = st.tuples(LAYERS, st.sampled_from(["replace", "merge", "remove"]), FIELDS)


@examples(60)
@given(st.lists(CHANGES, min_size=1, max_size=6))
def test_each_field_of_a_control_names_the_layer_that_set_it(said: Any) -> None:
    """A control defined by several layers is explained field by field."""
    rules = []
    for layer, word, fields in said:
        content: Any = True if word == "remove" else {"kind": "interval", **fields}
        rules.append(produce_rule(layer, controls={"warmth": {word: content}}))
    expected: dict[str, tuple[AttributeLayer, Any]] = {}
    order = list(AttributeLayer)
    for layer, word, fields in sorted(said, key=lambda change: order.index(change[0])):
        if word != "merge":
            expected = {}
        if word != "remove":
            expected |= {field: (layer, value) for field, value in fields.items()}
    wanted = {field: value for field, (_, value) in expected.items()}
    if wanted.get("minimum", 0) > wanted.get("maximum", 9):
        return

    attributes = ModelsIntegrator(provider="vendor", rules=tuple(rules)).integrate("m")

    fields_known = ("minimum", "maximum")
    found = {field: attributes.access_value(f"warmth.{field}") for field in fields_known}
    assert {field: value for field, value in found.items() if value is not ABSENT} == wanted
    for field, (layer, _) in expected.items():
        provenance = attributes.access_provenance(f"warmth.{field}")
        assert provenance is not None
        assert provenance.layer is layer


def test_lists_and_definitions_merge_or_replace_as_the_data_say(tmp_path: Path) -> None:
    """``merge`` adds, a plain value replaces, ``remove`` takes away."""
    text = """
        [defaults]
        tags = ["a"]
        aliases = ["old"]
        controls.warmth = { kind = "interval", minimum = 0, maximum = 2, default = 1 }
        controls.top_k = { kind = "interval", grade = 1 }
        [[models]]
        pattern = "x"
        tags = { merge = ["b", "a"] }
        aliases = ["new"]
        controls.warmth = { merge = { maximum = 1 } }
        controls.top_k = { remove = true }
    """

    attributes = integrate(tmp_path, text, "x1")

    assert attributes.access_value("tags") == ["a", "b"]
    assert attributes.access_value("aliases") == ["new"]
    assert attributes.controls == (IntervalControl(name="warmth", minimum=0, maximum=1, default=1),)
    (removed,) = [row for row in attributes.explain() if row.key == "top_k"]
    assert (removed.value, removed.layer) == (ABSENT, "family x")


def test_a_replaced_definition_forgets_the_old_default(tmp_path: Path) -> None:
    """A definition that replaces another says all of it, and a flat key beside it its default."""
    text = """
        [defaults]
        temperature = 1.0
        [[models]]
        pattern = "^a"
        controls.temperature = { kind = "interval", maximum = 0.5 }
        [[models]]
        pattern = "^ab"
        temperature = 0.2
    """

    assert integrate(tmp_path, text, "a").control_defaults == {}
    assert integrate(tmp_path, text, "ab").control_defaults == {"temperature": 0.2}


def test_the_users_word_is_the_last_and_may_concern_one_provider(tmp_path: Path) -> None:
    """Overrides beat the record of a model; those for another provider do not speak here."""
    data = '[[models]]\nmodel = "m"\nmax_tokens = 10\n'
    user = """
        [[models]]
        provider = "vendor"
        pattern = "."
        max_tokens = 20
        supports_images = "unknown"
        [[models]]
        provider = "other"
        pattern = "."
        max_tokens = 30
    """

    attributes = integrate(tmp_path, data, "m", user)

    assert attributes.control_defaults == {"max_tokens": 20}
    provenance = attributes.access_provenance("max_tokens")
    assert provenance is not None
    assert (provenance.layer, provenance.file, provenance.line) == (
        AttributeLayer.USER,
        "config.toml",
        2,
    )


def test_a_wish_for_all_models_gives_none_a_control_it_lacks(tmp_path: Path) -> None:
    """A user's default temperature leaves a model alone whose vendor refuses temperatures."""
    data = '[[models]]\npattern = "x"\n[models.controls]\ntemperature = {remove = true}\n'
    user = "[defaults]\ntemperature = 0.3\n"

    assert integrate(tmp_path, data, "x", user).controls == ()
    assert integrate(tmp_path, data, "y", user).control_defaults == {"temperature": 0.3}


def test_what_was_learnt_stands_between_the_data_and_the_user() -> None:
    """A fact from the vendor's service beats what ships, and the user beats both."""
    rules = (
        produce_rule(AttributeLayer.MODEL, model="m", context_window_tokens=1, title="shipped"),
        produce_rule(AttributeLayer.USER, title="mine"),
    )
    facts: Any = {"context_window_tokens": 2, "title": "theirs", "supports_images": True}

    attributes = ModelsIntegrator(provider="vendor", rules=rules).integrate(
        "m", facts=facts, facts_source="GET /v1/models"
    )

    assert attributes.access_value("context_window_tokens") == 2
    assert attributes.access_value("title") == "mine"
    assert attributes.access_capability("supports_images") is Capability.YES
    provenance = attributes.access_provenance("context_window_tokens")
    assert provenance is not None
    assert (provenance.layer, provenance.source) == (AttributeLayer.VENDOR, "GET /v1/models")


def test_every_known_capability_is_listed_even_when_unknown() -> None:
    """Unknown is an answer of its own, and not the same as no."""
    rules = (produce_rule(AttributeLayer.DEFAULT, supports_audio=False, supports_telepathy=True),)

    capabilities = ModelsIntegrator(provider="vendor", rules=rules).integrate("m").capabilities

    assert capabilities["supports_audio"] is Capability.NO
    assert capabilities["supports_images"] is Capability.UNKNOWN
    assert capabilities["supports_telepathy"] is Capability.YES


def test_a_user_default_outside_the_control_is_found_at_its_place(tmp_path: Path) -> None:
    """Layers that do not fit together are reported where the last of them was written."""
    data = '[defaults.controls]\ntemperature = {kind = "interval", maximum = 1}\n'
    user = '\n[[models]]\npattern = "."\ntemperature = 1.5\n'

    with pytest.raises(ConfigurationError) as caught:
        integrate(tmp_path, data, "m", user)

    assert str(caught.value) == (
        "config.toml:2: vendor:m: controls.temperature.default: It must be at most 1, not 1.5."
    )


def test_a_default_without_a_definition_is_a_mistake(tmp_path: Path) -> None:
    """A control that only another family defines cannot have a default here."""
    text = """
        [defaults]
        warmth = 1
        [[models]]
        pattern = "^a"
        controls.warmth = { kind = "interval" }
    """

    with pytest.raises(ConfigurationError, match=r"controls\.warmth: Missing key 'kind'"):
        integrate(tmp_path, text, "b")


def test_a_provider_without_default_model_says_how_to_name_one() -> None:
    """A bare provider needs a default model."""
    with pytest.raises(UnknownNameError, match="vendor:model"):
        ModelsIntegrator(provider="vendor").integrate()


def test_a_record_beats_a_family_that_stands_after_it(tmp_path: Path) -> None:
    """A table with the exact name is the record of that model, wherever it stands."""
    text = """
        [[models]]
        model = "m"
        title = "record"
        [[models]]
        pattern = "."
        title = "family"
    """

    assert integrate(tmp_path, text, "m").access_value("title") == "record"
    assert integrate(tmp_path, text, "m2").access_value("title") == "family"


def test_what_was_learnt_is_checked_like_what_is_written() -> None:
    """A wrong fact from a vendor is an error that names where it came from."""
    facts: Any = {"supports_images": "perhaps"}

    with pytest.raises(ConfigurationError, match="GET /v1/models: supports_images: "):
        ModelsIntegrator(provider="vendor").integrate(
            "m", facts=facts, facts_source="GET /v1/models"
        )
