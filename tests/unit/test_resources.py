"""Where the shipped data lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe_llms import resources


def test_a_checkout_has_its_data_at_the_top() -> None:
    """In a checkout the data stand beside the sources."""
    directory = resources.access_data_directory()

    assert directory == Path(resources.__file__).parents[2] / "data"
    assert resources.access_data("configuration", "defaults.toml").is_file()


def test_data_inside_the_package_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a wheel the data lie in the package, whatever stands beside it."""
    package = tmp_path / "site" / "library" / "vibe_llms"
    for place in (package, tmp_path / "site"):
        (place / "data" / "schemas").mkdir(parents=True)
    monkeypatch.setattr(resources, "_PACKAGE", package)

    assert resources.access_data("schemas") == package / "data" / "schemas"


def test_a_folder_of_another_owner_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder ``data`` that somebody else keeps beside the library is left alone."""
    package = tmp_path / "site" / "library" / "vibe_llms"
    package.mkdir(parents=True)
    (tmp_path / "site" / "data").mkdir()
    monkeypatch.setattr(resources, "_PACKAGE", package)

    with pytest.raises(FileNotFoundError, match="reinstall"):
        resources.access_data_directory()
