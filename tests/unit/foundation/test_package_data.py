"""Where the shipped data lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe_llms.foundation import package_data


def test_a_checkout_has_its_data_at_the_top() -> None:
    """In a checkout the data stand beside the sources."""
    directory = package_data.access_data_directory()

    assert directory == Path(package_data.__file__).parents[3] / "data"
    assert package_data.access_data("configuration", "defaults.toml").is_file()


def test_data_inside_the_package_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a wheel the data lie in the package, whatever stands beside it."""
    package = tmp_path / "site" / "library" / "vibe_llms"
    for place in (package, tmp_path / "site"):
        (place / "data" / "schemas").mkdir(parents=True)
    monkeypatch.setattr(package_data, "_PACKAGE", package)

    assert package_data.access_data("schemas") == package / "data" / "schemas"


def test_a_folder_of_another_owner_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder ``data`` that somebody else keeps beside the library is left alone."""
    package = tmp_path / "site" / "library" / "vibe_llms"
    package.mkdir(parents=True)
    (tmp_path / "site" / "data").mkdir()
    monkeypatch.setattr(package_data, "_PACKAGE", package)

    with pytest.raises(FileNotFoundError, match="reinstall"):
        package_data.access_data_directory()
