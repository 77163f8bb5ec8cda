"""Imports of modules that have moved say where they are."""

from __future__ import annotations

import importlib

import pytest

from vibe_llms.foundation.moved_modules import MOVED


@pytest.mark.slow
@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_import_names_the_new_module(old: str) -> None:
    importlib.import_module(MOVED[old])
    with pytest.raises(ModuleNotFoundError, match=MOVED[old]):
        importlib.import_module(old)


def test_other_unknown_modules_are_plainly_unknown() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        importlib.import_module("vibe_llms.no_such_module")
