"""Plugins are listed without being imported, loaded when used, and set aside when they fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import vibe_llms
from vibe_llms.configuration.classes import Configuration
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import DependencyError, PluginError, TrustError, UnknownNameError
from vibe_llms.plugins import (
    CommandSpecification,
    PluginManager,
    ProviderSpecification,
    ReactorsSpecification,
)
from vibe_llms.plugins.availability import is_importable
from vibe_llms.plugins.discovery import discover_providers
from vibe_llms.plugins.listings import PluginState

FIXTURES = Path(__file__).parents[2] / "fixtures"
BROKEN = FIXTURES / "broken-plugins"
EXAMPLE = FIXTURES / "example-provider" / "sources"

Configure = Callable[..., Configuration]


@pytest.fixture(autouse=True)
def _keep_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The fixtures can be imported in a test, and are forgotten after it."""
    monkeypatch.syspath_prepend(str(BROKEN))
    monkeypatch.syspath_prepend(str(EXAMPLE))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        path = getattr(sys.modules[name], "__file__", None) or ""
        if path.startswith(str(FIXTURES)) or name == "parrot_provider":
            del sys.modules[name]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """Loads a configuration from the text of the user's file."""

    def perform(text: str) -> Configuration:
        file = tmp_path / "config.toml"
        file.write_text(text, encoding="utf-8")
        return load_configuration(
            environment={"VIBE_LLMS_CONFIG": str(file), "HOME": str(tmp_path)},
            working_directory=tmp_path,
        )

    return perform


def write_tables(*modules: str, table: str = "providers") -> str:
    return "".join(f'[{table}.{name}]\nmodule = "{name}"\n' for name in modules)


def survey_states(manager: PluginManager) -> dict[str, str]:
    return {listing.entry.name: str(listing.state) for listing in manager.survey()}


def test_listing_says_what_is_there_and_imports_nothing(configure: Configure) -> None:
    """Name, module, package, source and state are known before any plugin's code has run."""
    text = write_tables("raises_at_import", "absent", "parrot_provider.client", "syntax_error")
    text = text.replace("[providers.parrot_provider.client]", "[providers.parrot]")
    text += '[providers.off]\nmodule = "off"\nenabled = false\n'
    text += '[plugins.tools]\nmodule = "parrot_provider.tools"\n'
    text += '[plugins.nothing]\nmodule = "parrot_provider.nothing"\npackage = "nothing >= 1"\n'
    manager = PluginManager(configuration=configure(text))
    before = set(sys.modules)

    states = survey_states(manager)

    assert {"parrot_provider", "raises_at_import", "vibe_llms.providers.local"}.isdisjoint(
        set(sys.modules) - before
    )
    shipped = {entry.name for entry in configure("").plugins}
    assert {states.pop(name) for name in shipped - {"local"}} == {"available"}
    del states["local"]  # llama.cpp need not be installed
    assert states == {
        "raises_at_import": "available",
        "absent": "not installed",
        "parrot": "available",
        "syntax_error": "available",
        "off": "disabled",
        "tools": "available",
        "nothing": "not installed",
    }
    listing = manager.survey()[-1]
    assert (listing.entry.module, listing.entry.package) == (
        "parrot_provider.nothing",
        "nothing >= 1",
    )
    assert str(listing.entry.source).endswith("config.toml:15")


def test_listing_costs_no_plugin_library(tmp_path: Path) -> None:
    """`vibe providers` starts fast: neither pluggy nor anything of a provider is imported."""
    code = (
        "import sys\n"
        "from vibe_llms.configuration.sources import load_configuration\n"
        "from vibe_llms.plugins import PluginManager\n"
        "assert PluginManager(configuration=load_configuration()).survey()\n"
        "heavy = {'pluggy', 'asyncio', 'jsonschema', 'difflib', 'vibe_llms.providers'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )

    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PYTHONPATH": str(Path(vibe_llms.__file__).parents[1])},
    )

    assert (run.stdout, run.stderr) == ("[]\n", "")


REASONS = {
    "raises_at_import": "It cannot be imported: RuntimeError: no coffee left.",
    "exits_at_import": "It cannot be imported: SystemExit: 3.",
    "syntax_error": "It cannot be imported: SyntaxError: invalid syntax (syntax_error.py, line 3).",
    "raises_in_hook": "It failed in survey_providers: LookupError: the list was lost.",
    "wrong_return": "It returned one str from survey_providers, in place of a list of "
    "ProviderSpecification.",
    "asynchronous_hook": "It returned one coroutine from survey_providers, in place of a list of "
    "ProviderSpecification.",
    "wrong_arguments": "It has an invalid hook: PluginValidationError: ",
    "unknown_hook": "Unknown hook 'survey_provider'; did you mean 'survey_providers'?",
}


def test_each_broken_plugin_is_named_and_the_rest_go_on(configure: Configure) -> None:
    """One line says what each did; the good one among them serves all the same."""
    text = write_tables(*REASONS) + '[providers.parrot]\nmodule = "parrot_provider"\n'
    manager = PluginManager(configuration=configure(text))

    specifications = manager.survey_specifications(ProviderSpecification)
    manager.load_all()

    assert "parrot" in [specification.name for specification in specifications]
    reasons = {failure.name: failure.reason for failure in manager.failures}
    assert "Argument(s) {'configuration'}" in reasons["wrong_arguments"]
    reasons["wrong_arguments"] = reasons["wrong_arguments"].partition("Plugin 'wrong")[0]
    assert reasons == REASONS
    states = survey_states(manager)
    assert {name for name, state in states.items() if state == "failed"} == (
        set(REASONS) - {"unknown_hook"}
    )
    assert states["parrot"] == states["unknown_hook"] == "loaded"


def test_a_plugin_with_an_unknown_hook_keeps_its_known_ones(configure: Configure) -> None:
    """A misspelt hook is reported and costs no other."""
    manager = PluginManager(configuration=configure(write_tables("unknown_hook", table="plugins")))

    (command,) = manager.survey_specifications(CommandSpecification)

    assert command.name == "known"
    assert [failure.is_fatal for failure in manager.failures] == [False]


def test_a_plugin_is_asked_once(configure: Configure) -> None:
    """What failed is not tried again, and what answered is not asked again."""
    manager = PluginManager(configuration=configure(write_tables("raises_in_hook")))

    assert len(manager.load_all()) == len(manager.load_all()) == 1
    assert (
        manager.survey_specifications(ProviderSpecification)[0]
        is manager.survey_specifications(ProviderSpecification)[0]
    )


def test_names_that_a_plugin_offers_lazily_stay_unloaded(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what a module defines is searched for hooks, not what it would import if asked."""
    (tmp_path / "lazy_plugin.py").write_text(
        "from vibe_llms.plugins import CommandSpecification, hook\n"
        "@hook\n"
        "def survey_commands():\n"
        "    return [CommandSpecification('lazy', 'is lazy', 'lazy_plugin:perform')]\n"
        "def __getattr__(name):\n"
        "    raise RuntimeError(f'{name} was asked for')\n"
        "def __dir__():\n"
        "    return ['heavy']\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    manager = PluginManager(configuration=configure(write_tables("lazy_plugin", table="plugins")))

    assert [command.name for command in manager.survey_specifications(CommandSpecification)] == [
        "lazy"
    ]
    assert manager.failures == ()
    del sys.modules["lazy_plugin"]


def test_reactors_are_those_of_plugins_in_use(configure: Configure) -> None:
    """To listen, a provider that nobody has used yet is not loaded."""
    provider = '[providers.parrot]\nmodule = "parrot_provider.tools"\n'
    manager = PluginManager(configuration=configure(provider))

    assert manager.survey_specifications(ReactorsSpecification) == ()
    assert "parrot_provider.tools" not in sys.modules
    manager.survey_specifications(CommandSpecification)
    assert [reactors.name for reactors in manager.survey_specifications(ReactorsSpecification)] == [
        "ears"
    ]
    plugin = provider.replace("providers.parrot", "plugins.parrot")
    (reactors,) = PluginManager(configuration=configure(plugin)).survey_specifications(
        ReactorsSpecification
    )
    assert reactors.name == "ears"


def check_refusal(manager: PluginManager, name: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        manager.load_provider(name)

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_why_a_provider_cannot_be_loaded_is_one_line(configure: Configure, tmp_path: Path) -> None:
    """The line names the plugin, the place, what is wrong, and what to do."""
    text = write_tables("raises_in_hook", "absent", "unknown_hook", "wrong_provider")
    text += '[providers.polly]\nmodule = "parrot_provider"\n'
    text += '[providers.makes_text]\nmodule = "wrong_provider"\n'
    text += '[providers.fails]\nmodule = "wrong_provider"\n'
    text += '[plugins]\ndisabled = ["scripted"]\n'
    manager = PluginManager(configuration=configure(text))

    file = tmp_path / "config.toml"
    check_refusal(manager, "raises_in_hook", PluginError, f"(raises_in_hook, user {file}:2) failed")
    check_refusal(manager, "absent", PluginError, "No module named 'absent'. Install the package")
    check_refusal(manager, "scripted", PluginError, "is disabled")
    check_refusal(manager, "unknown_hook", PluginError, "did you mean 'survey_providers'?")
    check_refusal(manager, "polly", PluginError, "has no provider 'polly'; its survey_providers")
    check_refusal(manager, "wrong_provider", PluginError, "names 'makes_text', 'fails'")
    check_refusal(manager, "makes_text", PluginError, "lacks produce_client")
    check_refusal(manager, "fails", PluginError, "OSError: no such parrot")
    check_refusal(manager, "scriptd", UnknownNameError, "did you mean 'scripted'?")


def test_a_provider_is_made_once_with_its_context(configure: Configure, tmp_path: Path) -> None:
    """It gets its settings and directories of its own, and the next caller gets the same one."""
    text = '[providers.parrot]\nmodule = "parrot_provider"\nlanguage = "en"\n'
    manager = PluginManager(configuration=configure(text))

    provider = manager.load_provider("parrot")

    assert manager.load_provider("parrot") is provider
    context = provider.context  # type: ignore[attr-defined]
    assert context.settings == {"language": "en"}
    data = tmp_path / ".local" / "share" / "vibe-llms"
    assert context.data_directory == data / "providers" / "parrot"
    assert context.consent.ask("weights:x", "Fetch it?") is False


def test_attributes_come_from_the_plugin_and_then_from_the_user(configure: Configure) -> None:
    """A stranger's data about models count as what ships does; the user has the last word."""
    text = '[providers.parrot]\nmodule = "parrot_provider"\n'
    override = '[[models]]\npattern = "polly"\nprovider = "parrot"\nmax_tokens = 5\n'
    plain = PluginManager(configuration=configure(text)).produce_catalogue()
    overridden = PluginManager(configuration=configure(text + override)).produce_catalogue()

    before = plain.access_integrator("parrot").integrate("polly")
    after = overridden.access_integrator("parrot").integrate("polly")

    assert plain.access_integrator("parrot").access_default_model() == "polly"
    assert before != after


def test_code_that_an_untrusted_folder_names_is_not_imported(tmp_path: Path) -> None:
    """The provider is listed as untrusted, and cannot be loaded."""
    folder = tmp_path / ".vibe-llms"
    folder.mkdir()
    (folder / "config.toml").write_text(write_tables("raises_at_import"), encoding="utf-8")
    configuration = load_configuration(
        environment={"HOME": str(tmp_path)}, working_directory=tmp_path
    )
    manager = PluginManager(configuration=configuration)

    check_refusal(manager, "raises_at_import", TrustError, "is not trusted")
    manager.load_all()

    assert survey_states(manager)["raises_at_import"] == PluginState.UNTRUSTED
    assert "raises_at_import" not in sys.modules


def test_an_unwanted_package_is_not_installed(configure: Configure) -> None:
    """Without consent nothing is fetched, and the line says how to give it."""
    text = '[providers.absent]\nmodule = "absent"\npackage = "absent-provider >= 1"\n'
    manager = PluginManager(configuration=configure(text))

    check_refusal(manager, "absent", TrustError, "VIBE_LLMS_YES=1")
    assert survey_states(manager)["absent"] == "not installed"


def test_a_python_without_pip_gets_the_one_command(
    configure: Configure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where this Python has no pip, the message has the command for one that has."""
    text = '[providers.absent]\nmodule = "absent"\npackage = "absent-provider>=1"\n'
    configuration = load_configuration(
        environment={"VIBE_LLMS_YES": "1", "HOME": str(tmp_path)},
        working_directory=tmp_path,
        command_line={"providers.absent": {"module": "absent", "package": "absent-provider>=1"}},
    )
    assert configure(text).providers["absent"].package == "absent-provider>=1"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    target = configuration.data_directory / "plugins" / "absent"

    check_refusal(
        PluginManager(configuration=configuration),
        "absent",
        DependencyError,
        f"python -m pip install --target {target} 'absent-provider>=1'",
    )


def test_another_version_that_is_installed_is_named(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is installed comes first on the path, so a newer one beside it would be in vain."""
    information = tmp_path / "site" / "parrot_provider-0.9.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Name: parrot-provider\nVersion: 0.9\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    text = '[providers.parrot]\nmodule = "parrot_provider"\npackage = "parrot-provider >= {}"\n'
    manager = PluginManager(configuration=configure(text.format(1)))

    words = "Run: python -m pip install --upgrade 'parrot-provider>=1'"
    check_refusal(manager, "parrot", DependencyError, words)
    fitting = PluginManager(configuration=configure(text.format("0.5")))
    assert fitting.load_provider("parrot").name == "parrot"


def test_a_package_that_is_no_requirement_is_refused(configure: Configure) -> None:
    """An option of pip cannot be smuggled in as a package."""
    text = '[providers.absent]\nmodule = "absent"\npackage = "--index-url=http://x y"\n'
    manager = PluginManager(configuration=configure(text))

    check_refusal(manager, "absent", ValueError, "config.toml:2: '--index-url=http://x y' is not")


def test_discovered_providers_are_imported_when_called_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`providers["name"]()` gives the provider; a table of names alone runs nobody's code."""
    monkeypatch.delitem(sys.modules, "parrot_provider", raising=False)
    tables = {
        "parrot": {"module": "parrot_provider"},
        "off": {"module": "raises_at_import", "enabled": False},
        "broken": {"module": "raises_at_import"},
    }

    providers = discover_providers(tables)

    assert set(providers) == set(discover_providers({"providers": tables})) == {"parrot", "broken"}
    assert "parrot_provider" not in sys.modules
    assert providers["parrot"]().name == "parrot"
    assert providers["parrot"]() is providers["parrot"]()
    with pytest.raises(PluginError):
        providers["broken"]()


def test_a_module_is_looked_for_without_importing_its_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packages, namespaces in namespaces and plain modules are told from what is not there."""
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "outer" / "inner" / "leaf.py").write_text("raise RuntimeError", encoding="utf-8")
    (tmp_path / "solid").mkdir()
    (tmp_path / "solid" / "__init__.py").write_text("raise RuntimeError", encoding="utf-8")
    (tmp_path / "solid" / "leaf.py").write_text("", encoding="utf-8")
    directories = [str(tmp_path)]

    names = (
        *("outer.inner.leaf", "outer.inner.none", "outer.none.leaf", "solid.leaf", "solid.none"),
        *("solid.leaf.none", "none", "json", "json.decoder", "sys", "sys.none"),
    )
    found = [name for name in names if is_importable(name, directories)]

    assert found == ["outer.inner.leaf", "solid.leaf", "json", "json.decoder", "sys"]
    monkeypatch.syspath_prepend(str(tmp_path))
    assert is_importable("outer.inner.leaf")
    assert {"outer", "outer.inner", "solid"}.isdisjoint(sys.modules)
