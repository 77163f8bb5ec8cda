"""How many requests may wait for a model that is at work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from vibe_llms.exceptions import LimitError
from vibe_llms.foundation.semaphores import Semaphore
from vibe_llms.providers.local.inference import LoadedModel, LoadSettings


async def test_no_more_wait_than_the_limit_allows() -> None:
    """The error names the limit."""
    model = object.__new__(LoadedModel)  # whose weights nobody needs here
    model.settings = LoadSettings(path=Path("any.gguf"), context_tokens=64, parallel=1, waiting=1)
    model.slots = Semaphore(1)
    assert model.slots.try_acquire()
    waiting = asyncio.create_task(model.slots.acquire())
    await asyncio.sleep(0)

    with pytest.raises(LimitError, match="waiting_requests = 1"):
        await model.open_exchange({})

    model.slots.release()
    await waiting
