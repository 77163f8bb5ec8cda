"""The layers, their order, and the sources of values."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from vibe_llms.configuration.classes import Configuration, Layer
from vibe_llms.configuration.definitions import SETTINGS
from vibe_llms.configuration.explanations import explain_configuration
from vibe_llms.configuration.paths import access_user_directory
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ConfigurationError

Load = Callable[..., Configuration]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads from texts: the user's file, the project's, and further variables."""

    def perform(
        user: str = "",
        project: str | None = None,
        environment: dict[str, str] | None = None,
        command_line: dict[str, Any] | None = None,
    ) -> Configuration:
        user_file = tmp_path / "user.toml"
        user_file.write_text(user, encoding="utf-8")
        folder = tmp_path / "project"
        (folder / "deep" / "deeper").mkdir(parents=True, exist_ok=True)
        if project is not None:
            (folder / ".vibe-llms").mkdir(exist_ok=True)
            (folder / ".vibe-llms" / "config.toml").write_text(project, encoding="utf-8")
        variables = {"VIBE_LLMS_CONFIG": str(user_file), "HOME": str(tmp_path / "home")}
        return load_configuration(
            environment=variables | (environment or {}),
            working_directory=folder / "deep" / "deeper",
            command_line=command_line,
        )

    return perform


def survey_findings(load: Load, **arguments: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(**arguments)
    findings = caught.value.findings
    return [
        f"{Path(each.place).name}:{each.line}: {each.path}{each.path and ': '}{each.message}"
        for each in findings
    ]


def test_without_any_file_the_shipped_defaults_hold(load: Load) -> None:
    """Nothing needs to be configured: the local model answers, and answers stream."""
    configuration = load()

    assert configuration.model == "local:smollm2"
    assert configuration.stream is True
    assert configuration.yes is False
    assert set(configuration.providers) >= {"local", "scripted"}
    assert configuration.settings["model"].source.layer is Layer.DEFAULTS


def test_a_later_layer_wins(load: Load) -> None:
    """Defaults, user, project, environment, command line: each overrides what came before."""
    layers = {
        "user": 'model = "p:user"',
        "project": 'model = "p:project"',
        "environment": {"VIBE_LLMS_MODEL": "p:environment"},
        "command_line": {"model": "p:command"},
    }

    found = [load(**dict(list(layers.items())[:count])).model for count in range(5)]

    assert found == ["local:smollm2", "p:user", "p:project", "p:environment", "p:command"]


def test_each_value_knows_its_file_and_line(load: Load, tmp_path: Path) -> None:
    """A value's source names the layer, the file and the line."""
    configuration = load(user="stream = false\n\n[controls]\ntemperature = 0.5\n")

    source = configuration.settings["controls.temperature"].source
    assert str(source) == f"user {tmp_path / 'user.toml'}:4"
    assert configuration.controls == {"temperature": 0.5}


def test_a_project_file_is_found_from_a_folder_below(load: Load, tmp_path: Path) -> None:
    """The nearest ancestor with a .vibe-llms folder decides, as with git."""
    configuration = load(project="stream = false")

    assert configuration.stream is False
    assert [file.path for file in configuration.files][-1] == (
        tmp_path / "project" / ".vibe-llms" / "config.toml"
    )


@pytest.mark.parametrize(
    "text",
    [
        '[providers]\ngemini = { module = "gem", package = "gem >= 1", region = "eu" }',
        '[providers.gemini]\nmodule = "gem"\npackage = "gem >= 1"\nregion = "eu"',
        'providers.gemini.module = "gem"\nproviders.gemini.package = "gem >= 1"\n'
        'providers.gemini.region = "eu"',
    ],
)
def test_both_spellings_of_a_provider_mean_the_same(load: Load, text: str) -> None:
    """A provider may be an inline table of [providers] or a table of its own."""
    entry = load(user=text).providers["gemini"]

    assert (entry.module, entry.package, entry.settings) == ("gem", "gem >= 1", {"region": "eu"})
    assert entry.source.line == (1 if text.startswith("providers.") else 2)


def test_every_setting_of_the_table_has_its_variable(load: Load) -> None:
    """The variable is the prefix and the dotted name in capitals, joined by underscores."""
    texts = {
        "model": ("p:m", "p:m"),
        "embedder": ("p:v", "p:v"),
        "ranker": ("p:r", "p:r"),
        "moderator": ("p:m", "p:m"),
        "illustrator": ("p:i", "p:i"),
        "speaker": ("p:s", "p:s"),
        "transcriber": ("p:t", "p:t"),
        "stream": ("off", False),
        "window": ("drop", "drop"),
        "lenient": ("true", True),
        "cache": ("1h", "1h"),
        "approver": ("guard", "guard"),
        "store": ("vault", "vault"),
        "yes": ("1", True),
        "directories.data": ("/d", Path("/d")),
        "directories.cache": ("/c", Path("/c")),
        "plugins.disabled": ("a, b", ["a", "b"]),
        "telemetry.opentelemetry": ("on", True),
        "telemetry.texts": ("1", True),
    }
    assert set(texts) == set(SETTINGS)
    variables = {f"VIBE_LLMS_{name.replace('.', '_').upper()}": texts[name][0] for name in texts}

    configuration = load(environment=variables | {"VIBE_LLMS_LIMITS_ATTACHMENT_BYTES": "7"})

    assert {name: configuration.settings[name].value for name in texts} == {
        name: value for name, (_, value) in texts.items()
    }
    assert configuration.limits.attachment_bytes == 7
    assert configuration.settings["stream"].source.place == "VIBE_LLMS_STREAM"


def test_relative_directories_are_below_the_folder_of_their_file(
    load: Load, tmp_path: Path
) -> None:
    """A path is relative to the file that has it, and a tilde is the home directory."""
    configuration = load(user="directories = { data = 'd', cache = '~/c' }")

    assert configuration.data_directory == tmp_path / "d"
    assert configuration.cache_directory == tmp_path / "home" / "c"


def test_a_plugin_may_be_put_out_before_anybody_names_its_module(load: Load) -> None:
    """Anything else that is said of it is a mistake, wherever it is said."""
    configuration = load(user="[providers.harbour]\nenabled = false\n")
    assert "harbour" not in configuration.providers

    said = {"providers.harbour.enabled": False, "providers.harbour.region": "eu"}
    assert survey_findings(load, command_line=said) == [
        "command line:0: 'providers.harbour' has no 'module', and no shipped plugin has this name."
    ]


def test_a_plugin_that_lacks_its_module_hides_no_other(load: Load) -> None:
    """Neither one that is whole nor another mistake, whichever comes first."""
    said = "[providers.{}]\n{}\n"
    unfinished, whole = said.format("a", "enabled = false"), said.format("b", "module = 'm'")

    entry = load(user=unfinished + whole).providers["b"]

    assert (entry.module, entry.package, entry.settings) == ("m", "", {})
    broken = said.format("c", "region = 'eu'")
    assert [
        line.partition(": ")[2] for line in survey_findings(load, user=unfinished + broken)
    ] == ["'providers.c' has no 'module', and no shipped plugin has this name."]


def test_all_mistakes_are_reported_at_once_with_their_lines(load: Load) -> None:
    """One run shows every mistake of every layer, each with place, rule and remedy."""
    user = """modle = "p:m"
stream = "yes"
controls = 1
[limits]
attachment_bites = 1
reactor_queue_events = 0
[directories]
data = 7
[providers.harbour]
region = "eu"
[providers.x]
module = "not a module"
[providers]
"a b" = { module = "m" }
[[models]]
pattern = "("
[[models]]
pattern = "^(a+)+$"
[[models]]
provider = "local"
"""
    found = survey_findings(load, user=user, environment={"VIBE_LLMS_STREM": "1"})

    assert found == [
        "user.toml:1: modle: Unknown setting; did you mean 'model'?",
        "user.toml:2: stream: It must be true or false, not 'yes'.",
        "user.toml:3: controls: It must be a table: write [controls].",
        "user.toml:5: limits.attachment_bites: Unknown setting; "
        "did you mean 'limits.attachment_bytes'?",
        "user.toml:6: limits.reactor_queue_events: It must be a whole number of at least 1, not 0.",
        "user.toml:8: directories.data: It must be the path of a directory, not 7.",
        "user.toml:12: providers.x.module: It must be the dotted name of a module, "
        "not 'not a module'.",
        "user.toml:14: providers.a b: A name may contain only letters, digits, '_', '.' and '-'.",
        "user.toml:16: models[0].pattern: The pattern '(': invalid syntax: missing ), "
        "unterminated subpattern at position 0.",
        "user.toml:18: models[1].pattern: The pattern '^(a+)+$': '+' cannot be used here: a group "
        "may be followed by '?', not repeat, and look-around and back references are not "
        "supported.",
        "user.toml:19: models[2]: Missing key 'pattern'; it must be a regular expression.",
        "VIBE_LLMS_STREM:0: Unknown variable; did you mean VIBE_LLMS_STREAM?",
        "user.toml:10: 'providers.harbour' has no 'module', and no shipped plugin has this name.",
    ]


@pytest.mark.parametrize(
    ("raw", "line", "message"),
    [
        (b"a = 1\nb = = 1", 2, "Invalid TOML: Invalid value."),
        (b"\n# \xff", 2, "TOML files must be UTF-8. This file is text in Latin-1"),
        (b"a = " + b"[" * 9000, 0, "Invalid TOML: arrays or tables nest too deeply."),
        (b"#" * 1_000_001, 0, "A configuration file has at most 1000000 bytes."),
    ],
)
def test_a_file_that_cannot_be_read_is_a_finding(
    tmp_path: Path, raw: bytes, line: int, message: str
) -> None:
    """Broken files are reported with their line, together with the mistakes elsewhere."""
    file = tmp_path / "user.toml"
    file.write_bytes(raw)
    environment = {"VIBE_LLMS_CONFIG": str(file), "VIBE_LLMS_STREAM": "perhaps"}

    with pytest.raises(ConfigurationError) as caught:
        load_configuration(environment=environment, working_directory=tmp_path)

    first, second = caught.value.findings
    assert (first.place, first.line) == (str(file), line)
    assert first.message.startswith(message)
    assert second.place == "VIBE_LLMS_STREAM"


def test_a_file_asked_for_by_name_must_exist(tmp_path: Path) -> None:
    """The usual file may be missing; the one that VIBE_LLMS_CONFIG names may not."""
    environment = {"HOME": str(tmp_path)}
    load_configuration(environment=environment, working_directory=tmp_path)

    with pytest.raises(ConfigurationError, match="does not exist"):
        load_configuration(
            environment=environment | {"VIBE_LLMS_CONFIG": "no.toml"}, working_directory=tmp_path
        )


def test_a_damaged_installation_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the shipped defaults nothing holds, and the message says which file is missing."""
    missing = tmp_path / "defaults.toml"
    monkeypatch.setattr("vibe_llms.configuration.sources.access_data", lambda *parts: missing)

    with pytest.raises(ConfigurationError) as caught:
        load_configuration(environment={"HOME": str(tmp_path)}, working_directory=tmp_path)

    assert [finding.place for finding in caught.value.findings] == [str(missing)]


@pytest.mark.parametrize("value", ["0.5", "0", "-1", "1.0", "1e3", "inf", "nan", "true", "'7'"])
def test_a_limit_is_a_whole_number_of_at_least_one(load: Load, value: str) -> None:
    """Nothing else bounds anything, wherever it is written."""
    in_file = survey_findings(load, user=f"limits.waiting_requests = {value}")
    variable = {"VIBE_LLMS_LIMITS_WAITING_REQUESTS": value}
    in_environment = survey_findings(load, environment=variable)

    for (finding,) in (in_file, in_environment):
        assert "limits.waiting_requests: It must be a whole number of at least 1, not" in finding


@pytest.mark.parametrize("names", [("model", "model.b"), ("model.b", "model")])
def test_a_name_cannot_be_both_a_value_and_a_table(load: Load, names: tuple[str, str]) -> None:
    """Two names of the command line that contradict each other are a mistake like others."""
    found = survey_findings(load, command_line=dict.fromkeys(names, "p:m"))

    rule = "has both a value and a table of values."
    assert f"command line:0: {names[1]!r} {rule}" in found


def test_tables_given_by_the_program_are_joined_and_left_as_they_are(load: Load) -> None:
    """A table and a name below it may both be given; the caller's table is not written to."""
    tables = {"a.b": {"module": "m", "own": {"x": 1}}}

    entries = load(
        command_line={"providers": tables, "providers.c.module": "n"},
    ).providers

    assert (entries["a.b"].module, entries["c"].module) == ("m", "n")
    assert entries["a.b"].settings == {"own": {"x": 1}}
    assert tables == {"a.b": {"module": "m", "own": {"x": 1}}}


def test_variables_of_plugins_are_left_alone(load: Load) -> None:
    """Only a variable that is nearly one of ours is taken for a mistake."""
    load(environment={"VIBE_LLMS_GEMINI_REGION": "eu", "VIBE_LLMS_MODEL": ""})


def test_model_overrides_add_up_in_the_order_of_the_layers(load: Load) -> None:
    """Every [[models]] is kept with its source, so that a model's attribute can be explained."""
    configuration = load(
        user='[[models]]\npattern = "^a"\nmax_tokens = 7\n[[models]]\npattern = "b"\n'
        'provider = "local"'
    )

    first, second = configuration.overrides
    assert (first.pattern, first.provider, first.attributes) == ("^a", None, {"max_tokens": 7})
    assert (second.provider, second.source.line) == ("local", 4)


def test_disabled_plugins_add_up_over_the_layers(load: Load) -> None:
    """No layer can bring back by accident what another has disabled."""
    configuration = load(
        user="[plugins]\ndisabled = ['local']", environment={"VIBE_LLMS_PLUGINS_DISABLED": "x"}
    )

    assert configuration.settings["plugins.disabled"].value == ["local", "x"]
    assert not configuration.providers["local"].is_enabled
    assert configuration.providers["scripted"].is_enabled


def test_an_explanation_gives_each_value_its_source_and_hides_secrets(load: Load) -> None:
    """What `vibe config show` prints is safe to paste into a bug report."""
    configuration = load(user='[providers.local]\napi_key = "sesame"\nmax_tokens = 5')

    explained = {
        item.name: (item.value, item.source) for item in explain_configuration(configuration)
    }

    assert explained["stream"][0] is True
    assert explained["providers.local.api_key"][0] == "********"
    assert explained["providers.local.max_tokens"][0] == 5
    assert explained["providers.local.api_key"][1].endswith("user.toml:2")
    assert "sesame" not in repr(configuration)


@pytest.mark.parametrize("word", ["config", "data", "cache"])
def test_directories_are_those_of_the_operating_system(word: str) -> None:
    """The directories are where platformdirs, and so every other program, has them."""
    expected = getattr(platformdirs, f"user_{word}_path")("vibe-llms", appauthor=False)

    assert access_user_directory(word, os.environ) == expected


def test_a_configuration_without_mistakes_costs_neither_lines_nor_classes() -> None:
    """It is loaded at every start: what only a mistake or an attrs class needs stays away."""
    program = """
import sys
from vibe_llms.configuration.sources import load_configuration
configuration = load_configuration()
heavy = {"attrs", "vibe_llms.exceptions", "vibe_llms.tables.annotations"}
heavy |= {"vibe_llms.tables.toml_lines"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
assert configuration.settings["model"].source.line > 0
assert "vibe_llms.tables.toml_lines" in sys.modules
"""

    subprocess.run([sys.executable, "-c", program], check=True)
