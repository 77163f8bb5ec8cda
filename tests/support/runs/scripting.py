"""Models with scripts of a test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vibe_llms.models.catalogue import Catalogue
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.scripted import client
from vibe_llms.providers.scripted.client import ScriptedModel
from vibe_llms.providers.scripted.scripts import produce_script
from vibe_llms.tables.documents import Document


def produce_model(*responses: dict[str, Any]) -> ScriptedModel:
    """Return a model with these responses; see ``vibe_llms.providers.scripted.scripts``."""
    attributes = Catalogue().access_integrator("scripted").integrate("test")
    descriptor = ModelDescriptor(provider="scripted", name="test", attributes=attributes)
    return ScriptedModel(
        descriptor, produce_script(Document("script", "", {"responses": responses}))
    )


def write_script(directory: Path, *responses: dict[str, Any]) -> Path:
    """Write these responses into a file that ``scripted:`` models can name."""
    lines = []
    for response in responses:
        lines.append("[[responses]]")
        lines += [f"{name} = {_write(value)}" for name, value in response.items()]
    path = directory / "script.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def _write(value: Any) -> str:
    """Return a value as TOML, which JSON is, but for objects and null."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_write(each)}' for name, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_write, value))}]"
    return json.dumps(value)


def hold_slow_answers(
    monkeypatch: pytest.MonkeyPatch, may_go: Callable[[str | None], object]
) -> None:
    """Hold answers with ``delay_seconds`` until ``may_go`` returns true for the text they match."""
    play = client._ScriptedSource._play_next

    async def hold(source: Any) -> Any:
        if source._response.delay_seconds:
            async with asyncio.timeout(60):
                while not may_go(source._response.match):  # noqa: ASYNC110  # the condition has no event
                    await asyncio.sleep(0.001)
        return await play(source)

    monkeypatch.setattr(client._ScriptedSource, "_play_next", hold)
