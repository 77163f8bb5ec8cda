"""How attribute files are found and read, and what is said of mistakes in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vibe_llms.exceptions import ConfigurationError, UnknownNameError
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import AttributeLayer
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.folders import Overrides


def write(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return directory


def report(directory: Path, files: dict[str, str]) -> list[str]:
    """Returns the findings, each with its place relative to the provider's folder."""
    catalogue = Catalogue(directory=write(directory, files))
    with pytest.raises(ConfigurationError) as caught:
        catalogue.access_integrator("vendor")
    return [str(finding).replace(f"{directory}/vendor/", "") for finding in caught.value.findings]


def test_one_folder_a_family_speaks_in_the_listed_order(tmp_path: Path) -> None:
    """Families of ``[[models]]`` come first, then those that ``families`` lists, then the model."""
    write(
        tmp_path,
        {
            "vendor/attributes.toml": 'families = ["b", "a"]\n[[models]]\npattern="."\ntitle="t"\n',
            "vendor/model-families/a.toml": 'pattern = "^m"\ntitle = "a"\n',
            "vendor/model-families/b/attributes.toml": 'pattern = "^m"\ntitle = "b"\n',
            "vendor/models/m-1.5.toml": 'title = "m"\n',
            "vendor/models/slash.toml": 'model = "org/m:2"\ntitle = "s"\n',
        },
    )

    integrator = Catalogue(directory=tmp_path).access_integrator("vendor")
    attributes = integrator.integrate("m-1.5")

    (title,) = attributes.traced_values
    assert [t.value for t in title.history] == ["m", "a", "b", "t"]
    assert [str(t.provenance) for t in title.history] == [
        "model m-1.5", "family a", "family b", "family ."]  # fmt: skip
    assert integrator.integrate("org/m:2").access_value("title") == "s"
    assert integrator.integrate("m-2").access_value("title") == "a"


def test_a_family_that_several_providers_share_is_named_with_a_slash(tmp_path: Path) -> None:
    """It speaks where the list has it, and a misspelt one is told of like any other."""
    write(
        tmp_path,
        {
            "vendor/attributes.toml": 'families = ["openai/gpt-5", "own"]\n',
            "vendor/model-families/own.toml": 'pattern = "^gpt-5"\ntitle = "ours"\n',
        },
    )

    attributes_of_it = Catalogue(directory=tmp_path).access_integrator("vendor").integrate("gpt-5")

    assert attributes_of_it.access_value("title") == "ours"
    provenance = attributes_of_it.access_provenance("token_encoding")
    assert provenance is not None
    assert (provenance.layer, provenance.name) == (AttributeLayer.FAMILY, "openai/gpt-5")
    (finding,) = report(tmp_path, {"vendor/attributes.toml": 'families = ["openai/x", "own"]'})
    assert (
        finding
        == "attributes.toml: 'families' names 'openai/x', which does not exist in model-families."
    )


def test_only_the_provider_asked_for_is_read(tmp_path: Path) -> None:
    """Listing providers reads nothing, and a broken file harms only its own provider."""
    write(tmp_path, {"broken/attributes.toml": "[", "vendor/attributes.toml": ""})
    catalogue = Catalogue(directory=tmp_path)

    assert catalogue.survey_providers() == ("broken", "vendor")
    assert catalogue.access_integrator("vendor").rules
    with pytest.raises(ConfigurationError, match="Invalid TOML"):
        catalogue.access_integrator("broken")


def test_files_are_read_once(tmp_path: Path) -> None:
    """A provider's data are kept after the first question."""
    catalogue = Catalogue(directory=write(tmp_path, {"vendor/attributes.toml": ""}))

    first = catalogue.access_integrator("vendor")

    assert catalogue.access_integrator("vendor") is first


def test_a_plugin_brings_its_own_folder(tmp_path: Path) -> None:
    """Data from a plugin stand beside what ships, and may extend it."""
    shipped = write(tmp_path / "shipped", {"vendor/attributes.toml": 'default_model = "m"\n'})
    own = write(tmp_path / "own", {"attributes.toml": '[defaults]\ntitle = "plugin"\n'})
    catalogue = Catalogue(
        directory=shipped, plugin_directories={"vendor": (own,), "stranger": (own,)}
    )

    assert catalogue.survey_providers() == ("stranger", "vendor")
    assert catalogue.access_attributes(ModelAddress("vendor")).access_value("title") == "plugin"
    stranger = catalogue.access_attributes(ModelAddress("stranger", "x"))
    assert stranger.access_value("title") == "plugin"


def test_a_provider_without_data_has_what_the_user_says(tmp_path: Path) -> None:
    """A strange provider is no mistake; its capabilities are unknown until someone tells."""
    overrides = Overrides(place="config", table={"defaults": {"title": "mine"}, "providers": {}})
    catalogue = Catalogue(directory=tmp_path, overrides=(overrides,))

    attributes = catalogue.access_attributes(ModelAddress("strange", "x"))

    assert [(t.key, t.provenance.layer) for t in attributes.traced_values] == [
        ("title", AttributeLayer.USER)
    ]


def test_a_later_override_beats_an_earlier_one(tmp_path: Path) -> None:
    """The project's configuration speaks after the user's."""

    def override(place: str) -> Overrides:
        return Overrides(place=place, table={"models": [{"pattern": ".", "title": place}]})

    catalogue = Catalogue(directory=tmp_path, overrides=(override("user"), override("project")))

    attributes = catalogue.access_attributes(ModelAddress("strange", "x"))

    assert attributes.access_value("title") == "project"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("vendor", "vendor:m"),
        ("vendor:other", "vendor:other"),
        ("m", "vendor:m"),
        ("fam-9", "second:fam-9"),
        ("unheard:x/y:z", "unheard:x/y:z"),
    ],
)
def test_what_a_user_types_becomes_an_address(tmp_path: Path, text: str, address: str) -> None:
    """A provider, a full address, or a bare name that one provider knows."""
    write(
        tmp_path,
        {
            "vendor/attributes.toml": 'default_model = "m"\n',
            "vendor/models/m.toml": 'title = "m"\n',
            "second/attributes.toml": '[[models]]\npattern = "^fam-"\n',
        },
    )

    assert str(Catalogue(directory=tmp_path).resolve_address(text)) == address


def test_a_name_that_nobody_or_everybody_knows_is_refused(tmp_path: Path) -> None:
    """The error tells the providers there are, or the addresses to choose from."""
    family = '[[models]]\npattern = "^fam-"\n'
    files = {"one/attributes.toml": family, "two/attributes.toml": family}
    files |= {"one/models/big-sonnet-3.toml": "", "two/models/big-sonnet-4.toml": ""}
    write(tmp_path, files)
    catalogue = Catalogue(directory=tmp_path)

    with pytest.raises(UnknownNameError, match="did you mean 'two'") as caught:
        catalogue.resolve_address("twoo")
    assert caught.value.known == ("two", "one")
    with pytest.raises(UnknownNameError, match="did you mean 'two:big-sonnet-4'") as caught:
        catalogue.resolve_address("Sonnet", aliases={"zwei": "two"})
    assert caught.value.known[:2] == ("two:big-sonnet-4", "one:big-sonnet-3")
    with pytest.raises(UnknownNameError, match="did you mean 'one:big-sonnet-3'"):
        catalogue.resolve_address("sonnett")
    with pytest.raises(UnknownNameError, match="one:fam-1, two:fam-1"):
        catalogue.resolve_address("fam-1")
    with pytest.raises(ConfigurationError):
        catalogue.resolve_address(" ")


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("\na = b\n", "toml:2: Invalid TOML: Invalid value"),
        ("\nfamilie = []", "toml:2: familie: Unknown setting; did you mean"),
        ('families = "a"', "toml:1: families: It must be a list"),
        ('families = ["a"]', "'families' names 'a', which does not exist in model-families"),
        ("default_model = 5", "toml:1: default_model: It must be a text"),
        ("[defaults.controls]\n'a.b' = {}", "defaults.controls.a.b: A control name must not"),
        ("defaults = 5", "toml:1: defaults: It must be a table"),
        ("models = 5", "toml:1: models: It must be tables, each headed [[models]]"),
        ('[defaults]\npattern = "x"', "toml:1: defaults: It has no 'pattern'"),
        ("\n[[models]]\ntitle = 't'", "toml:2: models[0]: It needs either 'pattern' or"),
        ("[[models]]\npattern = '.'\ngenus = 'converser'\n[[models]]\npattern = '.'\ngenus = 1",
         "toml:6: models[1].genus: Unknown genus 1"),
        ("[[models]]\npattern = '(a+)+'", "toml:2: models[0].pattern: The pattern '(a+)+': '+' c"),
        ("[[models]]\npattern = '['", "toml:2: models[0].pattern: The pattern '[': invalid"),
        ("[[models]]\npattern = 5", "toml:2: models[0].pattern: It must be a regular exp"),
        ("[defaults]\n\ntemprature = 1", "toml:3: defaults.temprature: Unknown key; "
         "did you mean 'temperature'"),
        ("[defaults]\nsupports_image = 1", "did you mean 'supports_images'"),
        ("[defaults]\nsupports_images = 1", "A capability must be true, false or 'unknown', not 1"),
        ("[defaults]\ngenus = 'conversor'", "did you mean 'converser'"),
        ("[defaults]\ntags = {merge = 5}", "toml:2: defaults.tags: 'merge' takes a list"),
        ("[defaults]\n'a.b' = 5", "toml:2: defaults.a.b: A key must not contain a dot"),
        ("[defaults]\ncontrols = 5", "toml:2: defaults.controls: It must be a table"),
        ("[defaults.controls]\nx = 5", "toml:2: defaults.controls.x: A definition must be a"),
        ("[defaults.controls]\ntitle = {}", "The name 'title' is reserved"),
        ("[defaults]\ndate = 'soon'", "toml:2: defaults.date: It must be a date such as"),
        ("[defaults]\nsupports_tools = true\nsupports_invocations = true", "is already set"),
        ("[defaults.sources]\ntitle = 'x'", "defaults.sources.title: It must be a table"),
        ("[defaults.sources]\ntitle = {source = 'x'}", "sources.title: The key is not set here"),
    ],
)  # fmt: skip
def test_a_mistake_is_found_with_its_file_and_line(tmp_path: Path, text: str, finding: str) -> None:
    """What is wrong in an attribute file is told with the place and the nearest right word."""
    findings = report(tmp_path, {"vendor/attributes.toml": text})

    assert any(finding in line for line in findings), findings


def test_all_mistakes_of_a_provider_are_told_at_once(tmp_path: Path) -> None:
    """Nobody has to repair and ask again for each mistake."""
    findings = report(
        tmp_path,
        {
            "vendor/attributes.toml": 'families = ["a"]\n[defaults]\ngenus = "x"\n',
            "vendor/model-families/a.toml": 'title = "t"\n',
            "vendor/model-families/forgotten.toml": 'pattern = "x"\n',
            "vendor/models/m.toml": 'pattern = "x"\n',
        },
    )

    assert len(findings) == 4
    assert any("forgotten.toml: The family is not listed" in line for line in findings)
    assert any("a.toml: A family needs a 'pattern'" in line for line in findings)
    assert any(
        "m.toml: The record of one model must not have a 'pattern'" in line for line in findings
    )


def test_a_value_takes_the_nearest_source(tmp_path: Path) -> None:
    """A source of its own beats that of its table, and that beats the one of the file."""
    text = """
        source = "file"
        date = 2026-01-01
        [defaults]
        title = "t"
        license = "l"
        sources.license = { source = "own" }
        controls.seed = { kind = "text" }
        sources.seed = { date = 2026-02-02 }
        [[models]]
        pattern = "."
        source = "table"
        knowledge_cutoff = 2026-06-30
    """
    write(tmp_path, {"vendor/attributes.toml": text})

    attributes = Catalogue(directory=tmp_path).access_attributes(ModelAddress("vendor", "m"))

    rows = {row.key: (row.value, row.source, row.date) for row in attributes.explain()}
    assert rows == {
        "title": ("t", "file", "2026-01-01"),
        "license": ("l", "own", "2026-01-01"),
        "seed": ({"kind": "text"}, "file", "2026-02-02"),
        "knowledge_cutoff": ("2026-06-30", "table", "2026-01-01"),
    }


def test_a_mistake_of_the_user_names_the_users_file(tmp_path: Path) -> None:
    """What the user wrote is judged like what ships, and found in the user's file."""
    table: dict[str, Any] = {"models": [{"pattern": "x", "temprature": 1}]}
    overrides = Overrides(
        place="config.toml", table=table, text="[[models]]\npattern = 'x'\ntemprature = 1\n"
    )

    with pytest.raises(ConfigurationError, match=r"config\.toml:3: .*'temperature'"):
        Catalogue(directory=tmp_path, overrides=(overrides,)).access_integrator("vendor")


def test_a_broken_provider_does_not_hide_another_ones_model(tmp_path: Path) -> None:
    """A bare name is found although another provider's data are broken; else they are told."""
    write(
        tmp_path,
        {"broken/attributes.toml": "[", "vendor/attributes.toml": '[[models]]\nmodel = "m"\n'},
    )
    catalogue = Catalogue(directory=tmp_path)

    assert catalogue.resolve_address("m") == ModelAddress("vendor", "m")
    with pytest.raises(ConfigurationError, match="broken"):
        catalogue.resolve_address("n")


def test_records_are_listed_with_the_default_model_first(tmp_path: Path) -> None:
    """A model that the user described for this provider is listed too, a family is not."""
    write(
        tmp_path,
        {
            "vendor/attributes.toml": 'default_model = "z"\n[[models]]\npattern = "^f"\n',
            "vendor/models/a.toml": 'title = "a"\n',
        },
    )
    models = [{"provider": "vendor", "model": "mine"}, {"provider": "x", "model": "other"},
              {"model": "any"}]  # fmt: skip
    overrides = (Overrides(place="config", table={"models": models}),)

    surveyed = Catalogue(directory=tmp_path, overrides=overrides).survey_models("vendor")

    assert [address.name for address in surveyed] == ["z", "a", "mine"]


def test_only_configured_providers_are_suggested() -> None:
    """Data of a provider that nobody has configured help nobody who mistypes a name."""
    catalogue = Catalogue(providers=("local", "scripted"))

    with pytest.raises(UnknownNameError) as caught:
        catalogue.resolve_address("xyzzy")

    assert set(caught.value.known) == {"local", "scripted"}
