"""Checks of names in a task that the configuration must have: provider, ensembles, MCP servers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.exceptions import Finding
from vibe_llms.flows.task_reading import TaskReading
from vibe_llms.foundation.suggestions import suggest
from vibe_llms.tables.paths import KeyPath

if TYPE_CHECKING:
    from vibe_llms.configuration.classes import Configuration


def find_unknown_names(
    reading: TaskReading, configuration: Configuration, *, uses_own_model: bool = True
) -> Iterator[Finding]:
    """Yield the names in a task that are not configured, each with the nearest configured name.

    Args:
        uses_own_model: Whether the task's own model is used.
    """
    task = reading.task

    def find(path: KeyPath, kind: str, name: str, known: Collection[str]) -> Finding:
        return reading.find(path, f"Unknown {kind} {name!r}{suggest(name, known)}")

    provider = configuration.follow_aliases(task.resource_llm.address).partition(":")[0]
    if uses_own_model and provider not in configuration.providers:
        path = ("resource_llm", "provider")
        yield find(path, "provider", provider, configuration.provider_names)
    ensembles, servers = configuration.ensembles, configuration.servers
    for index, name in enumerate(task.ensembles):
        if name not in ensembles:
            yield find(("ensembles", index), "ensemble", name, ensembles)
    for index, name in enumerate(task.mcp):
        if name not in servers and not (name.endswith(".toml") or Path(name).is_file()):
            yield find(("mcp", index), "MCP server", name, servers)
