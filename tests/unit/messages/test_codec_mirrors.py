"""Mirrors are made once, whoever asks first."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import pytest

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.codec.mirrors import access_mirror

THREADS = 8


@frozen(slots=False)
class Sea:
    name: str
    type: str = attrs.field(default="sea", init=False)


@frozen(slots=False)
class Lake:
    name: str
    type: str = attrs.field(default="lake", init=False)


@frozen(slots=False)
class Map:
    waters: tuple[Sea | Lake, ...] = ()


@pytest.fixture
def haste() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("haste")
def test_threads_that_ask_at_once_get_mirrors_that_fit_each_other() -> None:
    gate = threading.Barrier(THREADS)
    tree = {"waters": [{"type": "sea", "name": "North"}, {"type": "lake", "name": "Constance"}]}

    def read(number: int) -> Any:
        gate.wait()
        kind = (Map, Sea, Lake, Sea | Lake)[number % 4]
        access_mirror(kind)
        return access_mirror(Map).convert(tree)

    with ThreadPoolExecutor(THREADS) as pool:
        heard = list(pool.map(read, range(THREADS)))
    assert heard == [Map((Sea("North"), Lake("Constance")))] * THREADS
