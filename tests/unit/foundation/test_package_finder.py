"""Modules of this package are found as Python's own finder finds them."""

from __future__ import annotations

import pkgutil
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

import pytest

import vibe_llms
from vibe_llms.foundation import package_finder
from vibe_llms.foundation.package_finder import PackageFinder

NAMES = [
    "vibe_llms.foundation",
    "vibe_llms.foundation.files",
    "vibe_llms.providers.scripted",
    "vibe_llms.providers.scripted.client",
    "vibe_llms.absent",
    "vibe_llms.foundation.absent",
]


def _list_places(name: str) -> list[str]:
    root = Path(vibe_llms.__file__).parent
    return [str(root.joinpath(*name.split(".")[1:-1]))]


def _describe(spec: ModuleSpec | None) -> object:
    if spec is None:
        return None
    places = spec.submodule_search_locations
    return (
        spec.name,
        spec.origin,
        spec.cached,
        spec.has_location,
        spec.parent,
        type(spec.loader),
        None if places is None else list(places),
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_found_as_by_python(name: str) -> None:
    found = PackageFinder.find_spec(name, _list_places(name))

    assert _describe(found) == _describe(PathFinder.find_spec(name, _list_places(name)))


@pytest.mark.slow
def test_every_module_is_found() -> None:
    for module in pkgutil.walk_packages(vibe_llms.__path__, "vibe_llms.", onerror=lambda _: None):
        assert PackageFinder.find_spec(module.name, _list_places(module.name)), module.name


def test_modules_of_others_are_left_to_python() -> None:
    assert PackageFinder.find_spec("json.decoder", ["/somewhere"]) is None
    assert PackageFinder.find_spec("vibe_llms") is None


def test_a_place_without_files_is_left_to_python(tmp_path: Path) -> None:
    """Such as an archive."""
    assert PackageFinder.find_spec("vibe_llms.foundation", [str(tmp_path / "a.zip")]) is None


def test_it_is_installed_once_and_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))

    package_finder.install()
    package_finder.install()

    assert sys.meta_path[0] is PackageFinder
    assert sys.meta_path.count(PackageFinder) == 1
