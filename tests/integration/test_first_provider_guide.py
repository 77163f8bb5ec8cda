"""The code of the guide for authors of providers is run as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

import vibe_llms
from vibe_llms.plugins import specification

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
def folder(tmp_path: Path) -> Path:
    """A folder with the guide's files in it, as a reader would have written them."""
    for name, text in read_blocks().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_provider_of_the_guide_answers(folder: Path) -> None:
    """Who copies the guide's three files gets the answer that it prints."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "use_it.py"],
        cwd=folder,
        env={
            "HOME": str(folder),
            "PYTHONPATH": f"{SOURCES}:{folder}",
            "VIBE_LLMS_CONFIG": "config.toml",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert (run.stdout, run.stderr) == ("Hello! You said: Good morning\n", "")
    assert run.stdout in textwrap.dedent(GUIDE.read_text(encoding="utf-8")).replace("\n   ", "\n")


def test_the_published_form_differs_by_the_package_alone(folder: Path) -> None:
    """The second configuration of the guide is the first with one line more."""
    plain, published = (
        tomllib.loads((folder / name).read_text(encoding="utf-8"))["providers"]["hello"]
        for name in ("config.toml", "published.toml")
    )

    assert published == {**plain, "package": "hello-provider >= 1"}


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
