"""Modules whose code runs at their first use."""

from __future__ import annotations

import importlib
import inspect
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from vibe_llms.foundation import deferred_modules
from vibe_llms.foundation.deferred_modules import DeferredModule, DeferringFinder, install

SLOW = """
import time
def read(): return second
time.sleep(0.05)
second = 2
"""
EARLY = """
import sys
try:
    sys.modules["deferred_house.early"].later
except AttributeError as error:
    problem = str(error)
later = 1
"""


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package with deferred modules; both are forgotten afterwards."""
    folder = tmp_path / "deferred_house"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    texts = {"plain": "__all__ = ['size']\nsize = 3\n", "slow": SLOW, "early": EARLY}
    texts["broken"] = "raise RuntimeError('no')\n"
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    names = frozenset(f"deferred_house.{name}" for name in (*texts, "absent"))
    monkeypatch.setattr(deferred_modules, "DEFERRED", names)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    install()
    install()
    assert sys.meta_path.count(DeferringFinder) == 1
    yield "deferred_house"
    for name in [name for name in sys.modules if name.startswith("deferred_house")]:
        del sys.modules[name]


def test_its_code_runs_when_an_attribute_is_read(house: str) -> None:
    module = importlib.import_module(f"{house}.plain")
    assert isinstance(module, DeferredModule)
    assert "size" not in vars(module)

    assert module.size == 3
    assert type(module) is ModuleType
    assert module is sys.modules[f"{house}.plain"] is importlib.import_module(house).plain
    with pytest.raises(AttributeError, match="depth"):
        _ = module.depth


def test_an_import_of_a_name_runs_it(house: str) -> None:
    held: dict[str, object] = {}
    exec(f"from {house}.plain import *", held)

    assert held["size"] == 3


def test_its_names_and_source_are_those_of_the_module(house: str) -> None:
    module = importlib.import_module(f"{house}.plain")

    assert inspect.getsource(module).endswith("size = 3\n")
    assert "size" in dir(module)


def test_a_missing_module_fails_when_it_is_imported(house: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"deferred_house\.absent"):
        importlib.import_module(f"{house}.absent")


def test_an_error_of_its_code_is_raised_at_each_use(house: str) -> None:
    module = importlib.import_module(f"{house}.broken")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no"):
            _ = module.size


def test_its_own_code_sees_what_it_has_so_far(house: str) -> None:
    module = importlib.import_module(f"{house}.early")

    assert module.problem == "module 'deferred_house.early' has no attribute 'later'"
    assert module.later == 1


def test_a_module_that_is_imported_again_is_another_one(house: str) -> None:
    first = importlib.import_module(f"{house}.plain")
    del sys.modules[f"{house}.plain"]
    second = importlib.import_module(f"{house}.plain")

    assert first is not second
    assert (first.size, second.size) == (3, 3)


def test_what_is_set_before_its_first_use_stays(house: str) -> None:
    module = importlib.import_module(f"{house}.plain")
    module.size = 4

    assert module.size == 4


def test_another_thread_waits_for_its_code(house: str) -> None:
    """Also for a function that is defined before the code has run to its end."""
    module = importlib.import_module(f"{house}.slow")
    read: list[int] = []
    threads = [threading.Thread(target=lambda: read.append(module.read())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert read == [2] * 4


def test_the_modules_of_the_list_exist_and_are_no_packages() -> None:
    """A package would need its parts to be deferred too."""
    for name in deferred_modules.DEFERRED:
        spec = importlib.util.find_spec(name)
        assert spec is not None, name
        assert spec.submodule_search_locations is None, name
