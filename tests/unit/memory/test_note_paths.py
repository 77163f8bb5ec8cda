"""Paths of notes: their scopes, and what is out of reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import StoreError
from vibe_llms.memory.paths import NotePaths, name_project

PATHS = NotePaths(project="web")
WHOLE = NotePaths(project="web", is_whole=True)


@pytest.mark.parametrize(
    ("path", "key", "name"),
    [
        ("tea", "own/user/tea.md", "tea.md"),
        (" ./tea.md ", "own/user/tea.md", "tea.md"),
        ("customers/acme.txt", "own/user/customers/acme.txt", "customers/acme.txt"),
        ("project/plan", "own/projects/web/plan.md", "project/plan.md"),
        ("projects/web/plan.md", "own/projects/web/plan.md", "project/plan.md"),
        ("tags/cooking/rice", "own/tags/cooking/rice.md", "tags/cooking/rice.md"),
    ],
)
def test_a_path_has_a_scope(path: str, key: str, name: str) -> None:
    assert PATHS.locate(path) == key
    assert PATHS.name(key) == PATHS.normalize(path) == name


@pytest.mark.parametrize("path", ["", "/", "project", "tags", "tags/cooking", "projects/web"])
def test_a_scope_is_not_a_note(path: str) -> None:
    with pytest.raises(StoreError, match="not the name of a note"):
        PATHS.locate(path)


@pytest.mark.parametrize("path", ["../x", "a/../b", "tags/../x", "/etc/passwd", "a/.b", "x\0y"])
def test_paths_do_not_escape(path: str) -> None:
    for locate in (PATHS.locate, PATHS.locate_folders):
        with pytest.raises(StoreError, match="Invalid name"):
            locate(path)


def test_other_projects_are_out_of_reach_of_models() -> None:
    for path in ("projects/other/plan.md", "projects/other"):
        with pytest.raises(StoreError, match="not accessible"):
            PATHS.locate_folders(path)
    assert PATHS.locate_folders("projects") == ("own/projects/web/",)
    assert PATHS.locate_folders("") == ("own/user/", "own/projects/web/", "own/tags/")
    assert WHOLE.locate("projects/other/plan") == "own/projects/other/plan.md"
    assert WHOLE.name("own/projects/other/plan.md") == "projects/other/plan.md"
    assert WHOLE.locate_folders("projects") == ("own/projects/",)


def test_owners_have_notes_of_their_own() -> None:
    owners = ["", "ann", "Ann", "own", "a/b", "..", "ü" * 200, "ü" * 201, "x" * 300]
    roots = [NotePaths(owner=owner, project="web").root for owner in owners]

    assert len({root.lower() for root in roots}) == len(owners)
    assert [NotePaths(owner=each, project="web").locate("x") for each in owners]
    assert not any(one.startswith(other) for one in roots for other in roots if one != other)


def test_a_project_is_named_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one/my app/.git", "one/my app/deep", "two/my app/.vibe-llms"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "two/my app/.vibe-llms/config.toml").write_text("stream = true\n")
    names = []
    for folder in ("one/my app", "one/my app/deep", "two/my app", "two/my app/.vibe-llms"):
        monkeypatch.chdir(tmp_path / folder)
        configuration = load_configuration(environment={"HOME": str(tmp_path)})
        names.append(name_project(configuration))

    assert names[0] == names[1] != names[2] == names[3]
    assert all(name.startswith("my-app-") for name in names)


def test_an_error_names_the_path_as_it_was_written() -> None:
    with pytest.raises(StoreError, match=r"note '\.\./passwd': .*Use names such as") as caught:
        PATHS.locate("../passwd")
    assert "user/" not in str(caught.value)
