"""The shape of the house: the same rooms everywhere, each with its word of introduction."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sources" / "vibe_llms"
PACKAGES = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))


@pytest.mark.parametrize(
    "package", PACKAGES, ids=lambda path: str(path.relative_to(PACKAGE.parent))
)
def test_every_package_introduces_itself(package: Path) -> None:
    """A package says in its first lines what it is for."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8")))

    assert docstring, f"{package.relative_to(ROOT)}/__init__.py has no docstring."


@pytest.mark.parametrize(
    "package",
    [path for path in PACKAGES if path.parent == PACKAGE],
    ids=lambda path: path.name,
)
def test_every_top_package_says_what_it_refuses(package: Path) -> None:
    """What a package may import and what it does not know is part of its introduction."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""

    assert re.search(r"\b([Rr]efuses?|[Mm]ust not)\b", docstring), (
        f"{package.name}: say what the package must not know, so that the next reader can tell"
        " what does not belong in it."
    )


def test_there_is_no_room_for_odds_and_ends() -> None:
    """Modules are named after what they are about."""
    odd = {"common", "core", "helpers", "misc", "util", "utils"}

    assert not [path for path in PACKAGE.rglob("*.py") if odd & {path.stem, path.parent.name}]


def test_importing_the_package_imports_next_to_nothing() -> None:
    """``import vibe_llms`` loads the package, its version and what makes it lazy, and no more."""
    program = (
        "import sys; before = set(sys.modules); import vibe_llms;"
        " print(*sorted(set(sys.modules) - before))"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(PACKAGE.parent)},
    )

    ground = ["", ".lazy_imports", ".version"]
    ours = ["vibe_llms", *(f"vibe_llms.foundation{name}" for name in ground)]
    assert outcome.stdout.split() == ["__future__", *ours]


PRIVATE_PLACES = re.compile(
    r"(?<![\w.])/(?:" + "|".join(("root", "work", "opt", "Users")) + r")/\w|(?<![\w.])/home/[a-z]"
)
TEXTS = [
    path
    for top in ("sources", "tests", "data", "documentation", ".ci", "README.rst", "pyproject.toml")
    for path in ([ROOT / top] if (ROOT / top).is_file() else sorted((ROOT / top).rglob("*")))
    if path.is_file()
    and not {"__pycache__", "_build"} & set(path.parts)
    and not any(part.endswith("_cache") for part in path.parts)
]


def test_no_file_knows_somebodys_machine() -> None:
    """Nothing in the project points at a folder that exists on one machine only."""
    found = []
    for path in TEXTS:
        try:
            lines = path.read_text("utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # a picture
        found += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            for number, line in enumerate(lines, 1)
            if PRIVATE_PLACES.search(line)
        ]

    assert not found, "\n".join(found)


CONFLICT_MARKER = re.compile(rb"^(?:<{7}|>{7}|\|{7})(?: .*)?\r?$", re.MULTILINE)


def test_no_file_has_markers_of_an_unresolved_merge() -> None:
    for sign in (b"<", b">", b"|"):
        assert CONFLICT_MARKER.search(b"a\n" + sign * 7 + b" HEAD\nb\n")
        assert CONFLICT_MARKER.search(sign * 7)
    assert not CONFLICT_MARKER.search(b"Title\n=======\n  <<<<<<< HEAD\n<<<<<<<<\n")

    assert not [path for path in TEXTS if CONFLICT_MARKER.search(path.read_bytes())]


ARCHITECTURE = ROOT / "documentation" / "architecture"
MAP = ARCHITECTURE / "map.rst"
_SPOKEN = re.compile(  # in a sentence, or at the beginning of a line of a list of modules
    r"``((?:\w[\w-]*/)+(?:[\w-]+\.\w+)?|(?:\w[\w-]*/)*[\w-]+\.(?:html|js|json|mjs|py|toml))``"
    r"|^ {4,}((?:\w[\w-]*/)+(?:\w+\.py)?|\w+\.py)(?=[\s,])",
    re.MULTILINE,
)


def test_the_map_has_every_room() -> None:
    """Whoever reads the map alone knows of each package, and of each module beside them."""
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path in PACKAGES}
    text = MAP.read_text("utf-8")
    packages = text.partition("\nThe packages\n")[2].partition("\nBeside the sources\n")[0]
    entries = re.findall(r"^``.*``$", packages, re.MULTILINE)
    drawn = {name for entry in entries for name in re.findall(r"``(\w+)``", entry)}

    assert drawn == there - {"__init__", "__main__"}


def test_the_map_and_the_designs_name_no_room_that_is_gone() -> None:
    """Each file and folder that they speak of is there by that name."""
    files = [path.relative_to(ROOT) for path in TEXTS]
    folders = {folder for path in files for folder in path.parents}
    places = {f"/{path}" for path in files} | {f"/{folder}/" for folder in folders}
    spoken = [
        (page.name, inline or listed)
        for page in (MAP, *sorted((ARCHITECTURE / "designs").glob("*.rst")))
        for inline, listed in _SPOKEN.findall(page.read_text("utf-8"))
    ]

    assert len(spoken) > 100
    assert not [each for each in spoken if not any(p.endswith(f"/{each[1]}") for p in places)]
