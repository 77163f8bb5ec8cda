"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = """
from vibe_llms.foundation.lazy_imports import produce_attribute_access

__getattr__, __dir__ = produce_attribute_access(
    __name__, {"Heavy": "rooms.heavy", "Vanished": "rooms.heavy", "Nowhere": "gone"}
)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Makes a package ``lazy_house`` and forgets it again."""
    rooms = tmp_path / "lazy_house" / "rooms"
    rooms.mkdir(parents=True)
    (rooms.parent / "__init__.py").write_text(PACKAGE)
    (rooms / "__init__.py").write_text("")
    (rooms / "heavy.py").write_text("class Heavy: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "lazy_house"
    for name in [name for name in sys.modules if name.split(".")[0] == "lazy_house"]:
        del sys.modules[name]


def test_importing_the_package_imports_nothing_else(package: str) -> None:
    """A module is loaded when one of its names is used, and not before."""
    house = importlib.import_module(package)
    assert "lazy_house.rooms.heavy" not in sys.modules

    heavy = house.Heavy

    assert heavy is sys.modules["lazy_house.rooms.heavy"].Heavy


def test_a_name_is_looked_up_once(package: str) -> None:
    """After the first use the name is an ordinary attribute of the package."""
    house = importlib.import_module(package)
    assert "Heavy" not in vars(house)

    heavy = house.Heavy

    assert vars(house)["Heavy"] is heavy


def test_from_import_works(package: str) -> None:
    """``from package import Name`` finds the names of the table too."""
    namespace: dict[str, object] = {}

    exec(f"from {package} import Heavy", namespace)

    assert namespace["Heavy"] is sys.modules["lazy_house.rooms.heavy"].Heavy


def test_the_listing_shows_the_names_without_loading_them(package: str) -> None:
    """``dir`` and completion know the public names at once."""
    assert dir(importlib.import_module(package)) == ["Heavy", "Nowhere", "Vanished"]
    assert "lazy_house.rooms.heavy" not in sys.modules


def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    """A name outside the table fails as Python's own modules do, so ``hasattr`` works."""
    house = importlib.import_module(package)

    with pytest.raises(AttributeError, match="module 'lazy_house' has no attribute 'Light'"):
        _ = house.Light
    assert not hasattr(house, "Light")


def test_a_wrong_table_is_not_hidden(package: str) -> None:
    """An entry whose module or name does not exist says which."""
    house = importlib.import_module(package)

    with pytest.raises(AttributeError, match="Vanished"):
        _ = house.Vanished
    with pytest.raises(ModuleNotFoundError, match=r"lazy_house\.gone"):
        _ = house.Nowhere
