"""Ensembles come from plugins: those that ship and those of strangers by the same hook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vibe_llms import Application
from vibe_llms.configuration.classes import Configuration
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import PluginError, TrustError, UnknownNameError
from vibe_llms.invocables import InvocationContext, Registry, perform
from vibe_llms.plugins import EnsembleSpecification, PluginManager

EXAMPLE = Path(__file__).parents[2] / "fixtures" / "example-provider" / "sources"
PERCH = '[ensembles.perch]\nmodule = "parrot_provider.perch"\ntimes = 2\n'

Configure = Callable[..., Configuration]


@pytest.fixture(autouse=True)
def _keep_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The fixture can be imported in a test, and is forgotten after it."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("parrot_provider"):
            del sys.modules[name]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """Loads a configuration from the text of the user's file, and of a project's."""

    def perform(text: str, project: str = "") -> Configuration:
        file = tmp_path / "config.toml"
        file.write_text(text, encoding="utf-8")
        (tmp_path / ".vibe-llms").mkdir(exist_ok=True)
        (tmp_path / ".vibe-llms" / "config.toml").write_text(project, encoding="utf-8")
        return load_configuration(
            environment={"VIBE_LLMS_CONFIG": str(file), "HOME": str(tmp_path)},
            working_directory=tmp_path,
        )

    return perform


async def test_a_stranger_s_ensemble_is_invoked_with_its_settings(configure: Configure) -> None:
    """Three lines of configuration, and a model may invoke what a plugin brings."""
    application = Application(configure(PERCH))

    ensembles = await application.produce_ensembles(["perch"])

    async with Registry(ensembles) as registry:
        outcome = await perform(registry.access("repeat"), {"text": "hi"}, InvocationContext())
    assert ([each.name for each in ensembles], outcome.text) == (["perch"], "hi hi")


async def test_each_time_a_new_ensemble_is_made(configure: Configure) -> None:
    """As each is connected once; a name that is given twice counts once."""
    application = Application(configure(PERCH))

    first = await application.produce_ensembles(["perch", "perch"])
    second = await application.produce_ensembles(["perch"])

    assert len(first) == len(second) == 1
    assert first[0] is not second[0]


async def test_an_unknown_ensemble_names_the_nearest(configure: Configure) -> None:
    """Whoever mistypes a name reads the right one first, and how to configure another."""
    application = Application(configure(PERCH + PERCH.replace("perch]", "attic]")))

    with pytest.raises(UnknownNameError) as caught:
        await application.produce_ensembles(["prech"])

    assert (caught.value.kind, caught.value.known[0]) == ("ensemble", "perch")
    assert "[ensembles.prech]" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wrong-name", "has no ensemble 'wrong-name'; its survey_ensembles names 'perch'"),
        ("empty-perch", "returned object, which is not an ensemble"),
        ("broken-perch", "cannot be created: RuntimeError: the perch broke"),
    ],
)
def test_a_broken_ensemble_says_what_broke(configure: Configure, name: str, words: str) -> None:
    """The error names the plugin, and the others go on."""
    text = PERCH.replace("perch]", f"{name}]") + PERCH
    manager = PluginManager(configuration=configure(text))

    with pytest.raises(PluginError) as caught:
        manager.load_ensemble(name)

    assert words in str(caught.value)
    assert manager.load_ensemble("perch").name == "perch"


def test_listing_imports_no_ensemble_and_checking_finds_a_wrong_name(configure: Configure) -> None:
    """What is configured under a name that the plugin lacks shows when all are checked."""
    manager = PluginManager(configuration=configure(PERCH.replace("perch]", "branch]")))
    assert any(listing.entry.name == "branch" for listing in manager.survey())
    assert "parrot_provider.perch" not in sys.modules

    failures = manager.load_all()

    assert [failure.name for failure in failures] == ["branch"]
    assert "has no ensemble 'branch'" in failures[0].reason


def test_ensembles_of_all_plugins_are_surveyed(configure: Configure) -> None:
    """With what each lets a model do."""
    manager = PluginManager(configuration=configure(PERCH))

    found = {
        each.name: each.summary for each in manager.survey_specifications(EnsembleSpecification)
    }

    assert found["perch"] == "repeats"


def test_a_project_cannot_bring_an_ensemble_before_it_is_trusted(configure: Configure) -> None:
    """A stranger's folder names a module in vain; it may set one aside."""
    stranger = PluginManager(configuration=configure("", project=PERCH))
    with pytest.raises(TrustError):
        stranger.load_ensemble("perch")

    changed = "[ensembles.perch]\ntimes = 9\nmodule = 'os'\n"
    entry = configure(PERCH, project=changed).ensembles["perch"]
    assert (entry.module, entry.settings["times"]) == ("parrot_provider.perch", 2)
    assert "parrot_provider.perch" not in sys.modules

    configuration = configure(PERCH, project="[ensembles.perch]\nenabled = false\n")
    with pytest.raises(PluginError, match="disabled"):
        PluginManager(configuration=configuration).load_ensemble("perch")
