"""The code of the guide for authors of providers is run as it is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
import textwrap
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

import vibe_llms
from vibe_llms.plugins.plugin_templates import make_plugin
from vibe_llms.plugins.specification import hooks as specification

AUTHORS = Path(__file__).parents[2] / "documentation" / "authors"
GUIDE = AUTHORS / "first-provider.rst"
TOUCAN = Path(__file__).parents[1] / "fixtures" / "example-vendor" / "toucan_provider.py"
SOURCES = Path(vibe_llms.__file__).parents[1]
_BLOCK = re.compile(
    r"^\.\. code-block:: \w+\n   :caption: (?P<name>\S+)\n\n(?P<text>(?:   .*\n|\n)+)", re.MULTILINE
)


def read_blocks(guide: Path = GUIDE) -> dict[str, str]:
    """Returns the files that a guide prints, by their caption."""
    found = _BLOCK.finditer(guide.read_text(encoding="utf-8"))
    return {match["name"]: textwrap.dedent(match["text"]) for match in found}


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs shell commands of a user with a fresh environment, in which vibe-llms is installed."""
    place = tmp_path / "environment"
    venv.create(place, with_pip=True)
    library = next((place / "lib").glob("python*/site-packages"))
    (library / "installed.pth").write_text(f"{SOURCES}\n{sysconfig.get_path('purelib')}\n")
    vibe = place / "bin" / "vibe"
    vibe.write_text(
        f'#!/bin/sh\nexec "{place}/bin/python" -m vibe_llms.interfaces.cli.entry "$@"\n'
    )
    vibe.chmod(0o755)
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{place / 'bin'}:{os.defpath}",
        "PIP_NO_BUILD_ISOLATION": "0",  # as of yes: what builds is installed here
        "PIP_NO_DEPS": "1",  # vibe-llms is there, though not by pip
        "PIP_NO_INDEX": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.slow
def test_a_reader_who_types_what_the_guide_shows_gets_what_it_shows(
    machine: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """From an empty environment to a plugin that is made, tried, installed, asked, and removed."""
    guide = GUIDE.read_text(encoding="utf-8")
    commands = re.findall(r"^   \$ (.+)\n((?:   (?!\$).*\n)*)", guide, re.MULTILINE)
    assert len(commands) > 4

    for command, shown in commands:
        outcome = machine(command)
        assert outcome.returncode == 0, (command, outcome.stdout, outcome.stderr)
        pattern = ".*".join(map(re.escape, textwrap.dedent(shown).strip().split("...")))
        assert re.fullmatch(pattern, outcome.stdout.strip(), re.DOTALL), (command, outcome.stdout)
    (editable,) = re.findall(r"^\.\. code-block:: sh\n\n((?:   .+\n)+)", guide, re.MULTILINE)
    added = machine(f"set -e\n{textwrap.dedent(editable)}\nvibe ask --model hello 'Good morning'")

    assert added.stdout.startswith("Removed the provider hello.\n")
    assert (added.returncode, added.stderr) == (0, "")
    assert added.stdout.endswith("Hello! You said: Good morning\n")

    ((program, printed),) = re.findall(
        r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)"
        r"\.\. code-block:: text\n   :class: output\n\n((?:   .+\n)+)",
        guide,
        re.MULTILINE,
    )
    outcome = machine(f"python - <<'END'\n{textwrap.dedent(program)}END")
    assert (outcome.stdout, outcome.stderr) == (textwrap.dedent(printed), "")


def test_the_module_of_the_guide_is_the_one_that_is_made(tmp_path: Path) -> None:
    """What a reader sees printed is what stands in the file, and it is short."""
    make_plugin("hello", "provider", tmp_path)
    made = (tmp_path / "hello/sources/vibe_hello/__init__.py").read_text(encoding="utf-8")

    assert textwrap.indent(made, "   ", str.strip) in GUIDE.read_text(encoding="utf-8")
    assert made.count("\n") <= 30


def test_the_guide_names_every_hook_and_each_hook_is_described() -> None:
    """An author finds all hooks in the guide, and in each when it is called and what it returns."""
    hooks = {name: value for name, value in vars(specification).items() if "survey_" in name}
    guide = GUIDE.read_text(encoding="utf-8")

    assert set(re.findall(r"^``(survey_\w+)``$", guide, re.MULTILINE)) == set(hooks)
    for function in hooks.values():
        assert "Called:" in function.__doc__
        assert "Returns:" in function.__doc__


def test_the_vendor_that_is_printed_is_the_one_that_is_tried() -> None:
    """The provider in the guide to testing is the file that passes the contract here."""
    printed = read_blocks(AUTHORS / "testing-your-provider.rst")["toucan_provider.py"]

    assert printed.strip() == TOUCAN.read_text(encoding="utf-8").strip()
