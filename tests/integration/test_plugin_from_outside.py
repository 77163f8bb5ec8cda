"""A stranger's distribution becomes a provider: listed, installed, loaded, conversed with."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import vibe_llms

EXAMPLE = Path(__file__).parents[1] / "fixtures" / "example-provider"
SOURCES = Path(vibe_llms.__file__).parents[1]

PROGRAM = """
import asyncio, json, sys
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.plugins import CommandSpecification, PluginManager, ReactorsSpecification

async def converse(manager):
    client = manager.load_provider("parrot").produce_client()
    answers = []
    for name in ("", "loud-polly"):
        model = await client.access_model(name)
        response = await model.converse(Request(canisters=[UserCanister("hello there")]))
        answers.append([str(model.descriptor), response.text])
    await client.close()
    return answers

manager = PluginManager(configuration=load_configuration())
before = [str(listing.state) for listing in manager.survey() if listing.entry.name == "parrot"]
imported = "parrot_provider" in sys.modules
answers = asyncio.run(converse(manager))
after = [str(listing.state) for listing in manager.survey() if listing.entry.name == "parrot"]
commands = [command.name for command in manager.survey_specifications(CommandSpecification)]
reactors = [reactor.name for reactor in manager.survey_specifications(ReactorsSpecification)]
home = sys.modules["parrot_provider"].__file__
json.dump([before, imported, answers, after, commands, reactors, home, sys.path], sys.stdout)
"""


def build_wheel(directory: Path) -> None:
    """Builds the wheel as hatchling would, without fetching hatchling."""
    with zipfile.ZipFile(directory / "parrot_provider-1.2.0-py3-none-any.whl", "w") as wheel:
        for file in sorted((EXAMPLE / "sources").rglob("*")):
            if file.suffix in (".py", ".toml"):
                wheel.write(file, file.relative_to(EXAMPLE / "sources"))
        information = "parrot_provider-1.2.0.dist-info"
        # A wheel may carry a .pth file; with a hostile one it would run at each start.
        wheel.writestr("hostile.pth", "import sys; sys.exit('the .pth file was run')\n")
        wheel.writestr(
            f"{information}/METADATA",
            "Metadata-Version: 2.1\nName: parrot-provider\nVersion: 1.2.0\n"
            # Installed here already; the index has none, so to fetch it once more would fail.
            "Requires-Dist: attrs\n",
        )
        wheel.writestr(
            f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{information}/RECORD", "")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user who has configured the parrot, and an index that holds its wheel alone."""
    index = tmp_path / "index"
    index.mkdir()
    build_wheel(index)
    file = tmp_path / "config.toml"
    file.write_text(
        '[providers]\nparrot = { module = "parrot_provider", package = "parrot-provider >= 1" }\n'
        '[plugins.parrot-tools]\nmodule = "parrot_provider.tools"\n',
        encoding="utf-8",
    )
    return {
        "HOME": str(tmp_path),
        "PYTHONPATH": str(SOURCES),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
        "VIBE_LLMS_CONFIG": str(file),
        "VIBE_LLMS_DIRECTORIES_DATA": str(tmp_path / "data"),
    }


def run_program(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=environment["HOME"],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_stranger_s_provider_is_installed_after_consent_and_answers(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """From two lines of configuration to an answer; the second start installs nothing."""
    refused = run_program(environment)
    assert "was not confirmed" in refused.stderr
    assert not (tmp_path / "data").exists()

    states = []
    for arguments in ({"VIBE_LLMS_YES": "1"}, {}):
        run = run_program(environment | arguments)
        assert (run.returncode, run.stderr) == (0, "")
        before, imported, answers, after, commands, reactors, home, path = json.loads(run.stdout)
        states.append((before, after))

        directory = tmp_path / "data" / "plugins" / "parrot"
        assert imported is False
        assert answers == [["parrot:polly", "hello there"], ["parrot:loud-polly", "HELLO THERE"]]
        assert (commands, reactors) == (["squawk"], ["ears"])
        assert path[-1] == str(directory)
        assert home == str(directory / "parrot_provider" / "__init__.py")

    assert states == [(["not installed"], ["loaded"]), (["available"], ["loaded"])]
    assert [path.name for path in (tmp_path / "data" / "plugins").iterdir()] == ["parrot"]


@pytest.mark.slow
def test_a_plugin_that_is_installed_already_is_used_where_it_is(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """No package is fetched for what can be imported, and none is asked about."""
    environment["PYTHONPATH"] += f":{EXAMPLE / 'sources'}"

    run = run_program(environment)

    assert (run.returncode, run.stderr) == (0, "")
    home = Path(json.loads(run.stdout)[6])
    assert home == EXAMPLE / "sources" / "parrot_provider" / "__init__.py"
    assert not (tmp_path / "data" / "plugins").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "words"),
    [
        (
            "parrot-provider >= 7",
            "pip could not install parrot-provider>=7 for the plugin",
        ),
        ("macaw-provider", "No matching distribution found for macaw-provider"),
    ],
)
def test_a_package_that_pip_cannot_install_is_one_line_with_the_command(
    environment: dict[str, str], tmp_path: Path, package: str, words: str
) -> None:
    """What pip said last stands in the line, and nothing is left behind."""
    file = Path(environment["VIBE_LLMS_CONFIG"])
    text = file.read_text(encoding="utf-8").replace("parrot-provider >= 1", package)
    file.write_text(text, encoding="utf-8")

    run = run_program(environment | {"VIBE_LLMS_YES": "1"})

    last = run.stderr.strip().splitlines()[-1]
    assert words in last
    assert "python -m pip install --target" in last
    assert list((tmp_path / "data" / "plugins").iterdir()) == []
