"""Read the parts of a task that could not be read as a whole.

A single invalid prompt makes the whole list of prompts unreadable; the mistakes in the others must
be found, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vibe_llms.flows.task_reading import TaskReading
from vibe_llms.flows.tasks import RegistryEntry


def survey_templates(reading: TaskReading) -> list[str] | None:
    """Return all templates, empty for an invalid one; ``None`` if their number is unknown."""
    if "prompts" not in reading.unreadable:
        return [each.template for each in reading.task.prompts]
    prompts = reading.document.tree.get("prompts")
    if not isinstance(prompts, list):
        return None
    found = [each.get("template") if isinstance(each, Mapping) else "" for each in prompts]
    return [each if isinstance(each, str) else "" for each in found]


def survey_entries(reading: TaskReading) -> dict[str, RegistryEntry | None] | None:
    """Return the entries of the registry by name; ``None`` for an unreadable entry.

    Returns ``None`` instead of a mapping if the names are unknown.
    """
    if "resource_registry" not in reading.unreadable:
        return {each.name: each for each in reading.task.resource_registry.entries}
    registry = reading.document.tree.get("resource_registry")
    entries = registry.get("entries") if isinstance(registry, Mapping) else None
    if not isinstance(entries, list):
        return None
    names = [each.get("name") for each in entries if isinstance(each, Mapping)]
    return {name: None for name in names if isinstance(name, str)}


def survey_names(reading: TaskReading, key: str, read: Iterable[str]) -> frozenset[str]:
    """Return the keys of a table of the task; if it could not be read, the keys in the file."""
    table = reading.document.tree.get(key) if key in reading.unreadable else None
    return frozenset(map(str, table) if isinstance(table, Mapping) else read)
