"""Creation of the guards that a configuration names, of shipped kinds and of plugins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from vibe_llms.configuration.classes import Setting
from vibe_llms.exceptions import ConfigurationError, Finding, UnknownNameError
from vibe_llms.foundation.suggestions import order_by_nearness
from vibe_llms.guards.active import ActiveGuard
from vibe_llms.guards.settings import GuardSettings
from vibe_llms.guards.shipped import survey_guards
from vibe_llms.plugins.factories import make_guard
from vibe_llms.plugins.roster import PluginRoster
from vibe_llms.plugins.specification.guards import Guard, GuardContext, GuardSpecification
from vibe_llms.tables.reading import TableReader, locate_by_name


def make_guards(
    tables: Mapping[str, Mapping[str, Setting]],
    roster: PluginRoster,
    access: Callable[[str, str], Awaitable[Any]],
) -> tuple[ActiveGuard, ...]:
    """Make the guards of tables ``[guards.NAME]``, in their order.

    Args:
        tables: Settings of guards, by guard and key.
        roster: Finds the kinds of plugins.
        access: Returns an unguarded model by the word of its genus and its address.

    Raises:
        ConfigurationError: A table is invalid; lists all mistakes.
        UnknownNameError: A kind is unknown.
        PluginError: A guard cannot be created.
    """
    common = {field.name for field in attrs.fields(GuardSettings)}
    reader = TableReader(locate_by_name())
    chosen: list[tuple[str, GuardSettings, dict[str, Any]]] = []
    for name, table in tables.items():
        values = {key: setting.value for key, setting in table.items()}
        shared = {key: value for key, value in values.items() if key in common}
        settings = reader.read(GuardSettings, shared, ("guards", name))
        if settings is not None and settings.enabled:
            own = {key: value for key, value in values.items() if key not in common}
            chosen.append((name, settings, own))
    reader.finish()
    active = []
    findings: list[Finding] = []
    for name, settings, own in chosen:
        context = GuardContext(name=name, settings=own, access=access, working_directory=Path.cwd())
        try:
            guard = _make(settings.kind, context, roster)
        except ConfigurationError as error:
            findings += error.findings
            continue
        parts = frozenset(settings.parts)
        active.append(ActiveGuard(name=name, guard=guard, parts=parts, models=settings.models))
    if findings:
        raise ConfigurationError(findings=tuple(findings))
    return tuple(active)


def _make(kind: str, context: GuardContext, roster: PluginRoster) -> Guard:
    shipped = {each.name: each for each in survey_guards()}
    if kind in shipped:
        return shipped[kind].factory(context)
    found = roster.survey(GuardSpecification)
    for entry, specification in found:
        if specification.name == kind:
            return make_guard(entry, specification, context)
    known = order_by_nearness(kind, [*shipped, *(each.name for _, each in found)])
    raise UnknownNameError(
        kind="kind of guard",
        name=kind,
        known=known,
        remedy=f"Correct kind in [guards.{context.name}], or add the plugin that provides it.",
    )
