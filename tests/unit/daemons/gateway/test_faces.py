"""A protocol of clients says what its dialect can do."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

from vibe_llms.daemons.gateway import faces
from vibe_llms.daemons.gateway.client_requests import Face

MODULES = [import_module(f"{faces.__name__}.{each.name}") for each in iter_modules(faces.__path__)]
FACES: list[Face] = [module.FACE for module in MODULES if hasattr(module, "FACE")]


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
def test_a_face_uses_all_that_its_dialect_has(face: Face) -> None:
    """Otherwise a restriction of tools, or a vendor's quirk, would be overlooked silently."""
    has = [
        hasattr(face.dialect, each) for each in ("find_allowed", "touches_quirks", "normalize_same")
    ]

    assert [face.restricts_tools, face.knows_quirks, face.keeps_unknown] == has


def test_there_are_faces() -> None:
    """Each protocol has one."""
    assert len(FACES) >= 6
