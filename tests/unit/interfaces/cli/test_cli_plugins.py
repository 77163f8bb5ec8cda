"""Plugins are begun, added, listed and removed by a command, and nothing is left half done."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.quality.properties import sample
from vibe_llms.interfaces.cli.errors import ExitCode

Vibe = Callable[..., Any]

BROKEN = {
    "that has no hooks": ("x = 1", "has no hooks in vibe_harbour"),
    "that cannot be imported": ("1 / 0", "cannot list its hooks: ZeroDivisionError"),
    "whose hook fails": (
        "from vibe_llms.plugins import hook\n@hook\ndef survey_providers():\n    return [1 / 0]",
        "cannot list its hooks: ZeroDivisionError",
    ),
}


@pytest.fixture(autouse=True)
def pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's pip builds with what is installed here, and asks no index."""
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")


def survey_files(home: Path) -> set[str]:
    """Returns what there is below the configuration and the data."""
    return {
        str(path.relative_to(home))
        for top in (".config", ".local")
        for path in (home / top).rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["provider", "ensemble"])
def test_a_new_plugin_passes_its_own_tests(vibe: Vibe, home: Path, kind: str) -> None:
    """What is made is a whole package: it is tried where it stands, and nothing is missing."""
    outcome = vibe("plugins", "new", "my-vendor", "--kind", kind)

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "my-vendor"],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.code == 0
    assert all(Path(line).is_file() for line in outcome.out.splitlines())
    assert run.returncode == 0, run.stdout
    assert "MODULE" not in "".join(Path(line).read_text() for line in outcome.out.splitlines())


@pytest.mark.slow
def test_a_plugin_is_added_used_listed_and_removed(vibe: Vibe, home: Path) -> None:
    """Its package is installed and its table written; both go when it is removed."""
    before = survey_files(home)
    vibe("plugins", "new", "harbour")

    added = vibe("plugins", "add", "--yes", "./harbour")
    listed = vibe("plugins", "list", "--json").read_json()
    again = vibe("plugins", "add", "--yes", "./harbour")
    refused = vibe("plugins", "remove", "harbour")
    still = vibe("plugins", "list").out
    removed = vibe("plugins", "remove", "--yes", "harbour")

    assert (added.code, removed.code) == (0, 0), added.err
    assert (refused.code, "--yes" in refused.err) == (ExitCode.CONSENT, True), refused.err
    assert "harbour" in still
    assert [(each["name"], each["kind"], each["state"]) for each in listed] == [
        ("harbour", "provider", "available")
    ]
    assert again.code == ExitCode.CONFIGURATION
    assert "'harbour' already exists in [providers]" in again.err
    assert vibe("plugins", "list").out == ""
    assert {file for file in survey_files(home) if "harbour" in file} == before


@pytest.mark.slow
def test_the_rest_of_the_configuration_stays_as_it_was_written(vibe: Vibe, home: Path) -> None:
    """Comments and all; and after removing, the file is what it was."""
    text = "# mine\nstream = false  # I read slowly\n"
    file = home / ".config/vibe-llms/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    vibe("plugins", "new", "harbour", "--kind", "ensemble")

    vibe("plugins", "add", "--yes", "./harbour")
    with_table = file.read_text()
    vibe("plugins", "remove", "--yes", "harbour")

    assert with_table.startswith(text)
    assert "[ensembles.harbour]" in with_table
    assert file.read_text().strip() == text.strip()


def test_nothing_is_installed_without_consent(vibe: Vibe, home: Path) -> None:
    """Where nobody can be asked, and has not said ``--yes``, the answer is no."""
    vibe("plugins", "new", "harbour")

    outcome = vibe("plugins", "add", "./harbour")

    assert outcome.code == ExitCode.CONSENT
    assert "was not added" in outcome.err
    assert not survey_files(home)


@pytest.mark.slow
@pytest.mark.samples
@pytest.mark.parametrize("what", sample(BROKEN))
def test_a_package_with_nothing_to_add_leaves_nothing_behind(
    vibe: Vibe, home: Path, what: str
) -> None:
    """What pip has installed goes again when the plugin turns out to be none."""
    text, words = BROKEN[what]
    vibe("plugins", "new", "harbour")
    (home / "harbour/sources/vibe_harbour/__init__.py").write_text(text)

    outcome = vibe("plugins", "add", "--yes", "./harbour")

    assert outcome.code == ExitCode.CONFIGURATION
    assert words in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert not survey_files(home)


def test_a_configuration_that_does_not_hold_is_left_alone(vibe: Vibe, home: Path) -> None:
    """A mistake elsewhere in the file is told, and no package stays behind."""
    file = home / ".config/vibe-llms/config.toml"
    vibe("plugins", "new", "harbour")
    file.parent.mkdir(parents=True)
    file.write_text("[providers\n")

    outcome = vibe("plugins", "add", "--yes", "./harbour")

    assert outcome.code == ExitCode.CONFIGURATION
    assert f"{file}:1" in outcome.err
    assert survey_files(home) == {".config/vibe-llms/config.toml"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("new", "a/b"), ExitCode.CONFIGURATION, "Invalid plugin name"),
        (("new", "../up"), ExitCode.CONFIGURATION, "Invalid plugin name"),
        (("add", "--yes", "./absent"), ExitCode.CONFIGURATION, "absent is not a package"),
        (("add", "--yes", "absent.whl"), ExitCode.CONFIGURATION, "absent.whl is not a package"),
        (("add", "--yes", "two words"), ExitCode.CONFIGURATION, "'two words' is not a requirement"),
        (("add", "--yes", "no-such-plugin"), ExitCode.CONFIGURATION, "No matching distribution"),
        (("remove", "local"), ExitCode.NOT_FOUND, "vibe config set plugins.disabled"),
        (("remove", "absent"), ExitCode.NOT_FOUND, "Unknown plugin 'absent'"),
    ],
)
def test_a_mistake_is_one_line(
    vibe: Vibe, home: Path, arguments: tuple[str, ...], code: ExitCode, words: str
) -> None:
    """It names what was given, and nothing is changed."""
    outcome = vibe("plugins", *arguments)

    assert outcome.code == code, outcome.err
    assert words in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert not survey_files(home)


def test_a_folder_that_is_there_is_not_written_into(vibe: Vibe, home: Path) -> None:
    """Somebody's work of the same name stays as it is."""
    (home / "harbour").mkdir()

    outcome = vibe("plugins", "new", "harbour")

    assert outcome.code == ExitCode.CONFIGURATION
    assert "harbour cannot be created: File exists" in outcome.err
    assert list((home / "harbour").iterdir()) == []
