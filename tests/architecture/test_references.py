"""What a guide imports is in the reference: nobody has to read the sources to go on from there."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import runpy
import textwrap
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTATION = ROOT / "documentation"
_DIRECTIVE = re.compile(r"^\.\. auto(\w+):: ([\w.]+)\n((?:   .*\n)*)", re.MULTILINE)
_FIELDS = re.compile(r"^\.\. field-meanings:: ([\w.]+):(\w+)$", re.MULTILINE)
_BLOCK = re.compile(r"^\.\. code-block:: python\n(?:   :.*\n)*\n((?:   .*\n|\n)+)", re.MULTILINE)


_CITED = re.compile(r"\b[Dd]ecision (\d{4})\b|decisions/(\d{4}[\w-]*)")


def survey_cited_decisions() -> set[tuple[str, str]]:
    """Return the files that cite a decision, each with the number or page that it cites."""
    files = [ROOT / "README.rst", ROOT / "pyproject.toml"]
    for folder, pattern in (
        ("sources", "*.py"),
        ("tests", "*.py"),
        ("documentation", "*.rst"),
    ):
        files += (ROOT / folder).rglob(pattern)
    return {
        (str(file.relative_to(ROOT)), number or page)
        for file in files
        for number, page in _CITED.findall(file.read_text("utf-8"))
    }


def survey_directives() -> set[tuple[str, str]]:
    """Returns module and name of all that the reference documents."""
    found = set()
    for page in (DOCUMENTATION / "reference").glob("*.rst"):
        for kind, target, options in _DIRECTIVE.findall(page.read_text("utf-8")):
            members = re.search(r":members:(.*)", options)
            if kind != "module":
                module, _, name = target.rpartition(".")
                found.add((module, name))
            elif members and members[1].strip():
                found |= {(target, name.strip()) for name in members[1].split(",")}
            elif members:
                own = vars(importlib.import_module(target)).items()
                found |= {(target, n) for n, v in own if getattr(v, "__module__", "") == target}
    return found


def survey_documented() -> set[str]:
    """Returns the names that the reference documents, each by itself or with its module."""
    pages = (DOCUMENTATION / "reference").glob("*.rst")
    plain = (re.findall(r"``vibe_llms\.([\w.]+)``", page.read_text("utf-8")) for page in pages)
    return {name for _, name in survey_directives()}.union(*plain)


def survey_imported() -> set[tuple[str, str, str]]:
    """Returns page, module and name of all that examples import from below the top."""
    return {
        (page.name, node.module or "", alias.name)
        for folder in ("tutorials", "guides", "authors", "reference")
        for page in (DOCUMENTATION / folder).glob("*.rst")
        for block in _BLOCK.findall(page.read_text("utf-8"))
        for node in ast.walk(ast.parse(textwrap.dedent(block)))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vibe_llms.")
        for alias in node.names
    }


def is_module(module: str, name: str) -> bool:
    """Tells whether a name is a module, which the page is about as a whole."""
    return (ROOT / "sources" / Path(*module.split("."), name)).is_dir()


def test_what_examples_import_is_in_the_reference() -> None:
    """Every name of an example has its entry; those at the top are in a table of their own."""
    documented = survey_documented()
    imported = survey_imported()

    assert imported
    assert not sorted(
        (page, name)
        for page, module, name in imported
        if name not in documented and not is_module(module, name)
    )


def test_what_the_reference_documents_exists() -> None:
    """The targets of autodoc, and the classes of which a page has a table of fields."""
    targets = survey_directives()
    for page in DOCUMENTATION.rglob("*.rst"):
        targets |= set(_FIELDS.findall(page.read_text("utf-8")))
    missing = []
    for module, name in sorted(targets):
        try:
            getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            missing.append(f"{module}.{name}")

    assert len(targets) > 100
    assert not missing


def test_every_field_of_what_the_reference_documents_is_explained() -> None:
    """In the docstring of the class, or of one above it: what it is made of, in which unit."""
    missing = []
    for module, name in sorted(survey_directives()):
        value = getattr(importlib.import_module(module), name, None)
        if not inspect.isclass(value) or not attrs.has(value):
            continue
        text = "\n".join(inspect.getdoc(cls) or "" for cls in value.__mro__[:-1])
        given = set(inspect.signature(value).parameters)
        fields = [field.name for field in attrs.fields(value) if field.name in given]
        missing += [
            f"{module}.{name}.{field}"
            for field in fields
            if not re.search(rf"^ *(\w+, )*{field}(, \w+)*: ", text, re.MULTILINE)
        ]

    assert not missing


def test_a_docstring_is_shown_as_it_was_written() -> None:
    """A colon in the first line begins no type, and each of several names is one of its own."""
    prepare = runpy.run_path(str(DOCUMENTATION / "extensions" / "docstrings.py"))["prepare"]
    shown, several = (
        ["Whether it can go on: it waits."],
        ["    start, end: Of the span.", "        X."],
    )

    prepare("property", shown)
    prepare("class", several)

    assert shown == [": Whether it can go on: it waits."]
    assert several == [
        "    start: Of the span.",
        "        X.",
        "    end: Of the span.",
        "        X.",
    ]


def test_a_decision_that_is_cited_has_a_page() -> None:
    """Also by its number alone, as in docstrings; and the index lists every page."""
    pages = {page.stem for page in (DOCUMENTATION / "architecture" / "decisions").glob("0*.rst")}
    known = pages | {page[:4] for page in pages}
    cited = survey_cited_decisions()
    index = (DOCUMENTATION / "architecture" / "decisions" / "index.rst").read_text("utf-8")

    assert len(cited) > 30
    assert not sorted((file, decision) for file, decision in cited if decision not in known)
    assert {*re.findall(r":doc:`(0[\w-]+)`", index)} == pages
