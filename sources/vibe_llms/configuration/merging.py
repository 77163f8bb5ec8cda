"""Merge layers: later ones override earlier ones.

Settings of a project that require trust have no effect until the user trusts its folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vibe_llms.configuration.classes import (
    Configuration,
    ModelOverride,
    PluginEntry,
    Setting,
    TrustRequest,
)
from vibe_llms.configuration.definitions import DEFAULTS, PLUGIN_KEYS, PLUGIN_TABLES, Definition
from vibe_llms.configuration.layer_reader import LayerValues
from vibe_llms.configuration.trust import is_harmless, is_trusted
from vibe_llms.foundation.json_types import is_same

if TYPE_CHECKING:
    from vibe_llms.exceptions import Finding

Settings = dict[tuple[str, ...], Setting]

_DISABLED = ("plugins", "disabled")


class Layers(NamedTuple):
    """The values of each layer, and the project's file."""

    defaults: LayerValues
    user: LayerValues
    project: LayerValues
    environment: LayerValues
    command_line: LayerValues
    project_file: Path | None = None
    project_digest: str = ""


def merge_layers(
    layers: Layers, definitions: Mapping[str, Definition], findings: list[Finding]
) -> Configuration:
    """Merge the layers into one configuration.

    Args:
        layers: The values of each.
        definitions: The known settings.
        findings: Collects errors that require all layers.
    """
    lower, upper = (layers.defaults, layers.user), (layers.environment, layers.command_line)
    # The project must not choose the directory of the record that decides whether it is trusted.
    without_project = _overlay((*lower, *upper))
    request = _produce_trust_request(layers, without_project, _overlay(lower), definitions)
    project = layers.project if request is None else _withhold(layers.project, request)
    effective = (*lower, project, *upper)
    settings = _overlay(effective)
    ignored = {setting.path: setting for setting in request.settings} if request else {}
    return Configuration(
        settings={setting.name: setting for setting in settings.values()},
        plugins=tuple(_produce_plugins(settings, ignored, findings)),
        overrides=tuple(override for layer in effective for override in layer.overrides),
        trust_request=request,
    )


def _overlay(layers: Iterable[LayerValues]) -> Settings:
    """Merge the settings of layers, the weakest first."""
    merged: Settings = {}
    for layer in layers:
        disabled = merged.get(_DISABLED)
        merged |= layer.settings
        added = layer.settings.get(_DISABLED)
        if disabled and added:  # no layer can enable what another one disabled
            names = dict.fromkeys((*disabled.value, *added.value))
            merged[_DISABLED] = added._replace(value=list(names))
    return merged


def _produce_trust_request(
    layers: Layers,
    without_project: Settings,
    lower: Settings,
    definitions: Mapping[str, Definition],
) -> TrustRequest | None:
    """Return the project's settings that require trust; ``None`` without any.

    Args:
        layers: The values of each layer.
        without_project: The settings without those of the project, among them the data directory,
            which has the record of trust.
        lower: The settings of weaker layers than the project; repeating one is harmless.
        definitions: The known settings.
    """
    plugins = {
        path[1] for path in without_project if path[0] == "plugins" and path[2:] == ("module",)
    }
    requested = [
        setting
        for path, setting in layers.project.settings.items()
        if not is_harmless(setting, definitions, plugins)
        # Repeating a value in effect changes nothing, so it requires no trust.
        and not (path in lower and is_same(lower[path].value, setting.value))
    ]
    requested += [_describe_override(override) for override in layers.project.overrides]
    file = layers.project_file
    if not requested or file is None:
        return None
    request = TrustRequest(
        folder=file.parent.parent,
        file=file,
        digest=layers.project_digest,
        settings=tuple(requested),
        data_directory=without_project["directories", "data"].value,
    )
    return None if is_trusted(request) else request


def _describe_override(override: ModelOverride) -> Setting:
    path = (DEFAULTS,) if override.pattern is None else ("models", override.pattern)
    return Setting(path, dict(override.attributes), override.source)


def _withhold(project: LayerValues, request: TrustRequest) -> LayerValues:
    ignored = {setting.path for setting in request.settings}
    settings = {path: value for path, value in project.settings.items() if path not in ignored}
    return LayerValues(settings)


def _produce_plugins(
    settings: Settings, ignored: Settings, findings: list[Finding]
) -> list[PluginEntry]:
    """Make an entry for each plugin, including those without effect for lack of trust.

    Settings without effect are never merged into the entry of a plugin named elsewhere.
    """
    disabled = settings[_DISABLED].value if _DISABLED in settings else ()
    effective_tables, ignored_tables = _group_plugins(settings), _group_plugins(ignored)
    entries = []
    for table, name in dict.fromkeys((*effective_tables, *ignored_tables)):
        keys = effective_tables.get((table, name), {})
        has_trusted_module = "module" in keys
        if not has_trusted_module:
            keys = {**ignored_tables.get((table, name), {}), **keys}
        if "module" not in keys:
            _report_missing_module(table, name, keys, findings)
            continue
        package, enabled = keys.get("package"), keys.get("enabled")
        entries.append(
            PluginEntry(
                table=table,
                name=name,
                module=keys["module"].value,
                package=package.value if package else "",
                is_enabled=(enabled is None or enabled.value) and name not in disabled,
                is_trusted=has_trusted_module,
                settings=_access_values(keys.values()),
                source=keys["module"].source,
            )
        )
    return entries


def _group_plugins(settings: Settings) -> dict[tuple[str, str], dict[str, Setting]]:
    """Return the settings in the tables of plugins, by table and name, then by key."""
    groups: dict[tuple[str, str], dict[str, Setting]] = {}
    for path, setting in settings.items():
        if path[0] in PLUGIN_TABLES and len(path) == 3:
            groups.setdefault((path[0], path[1]), {})[path[2]] = setting
    return groups


def _access_values(settings: Iterable[Setting]) -> dict[str, Any]:
    return {s.path[2]: s.value for s in settings if s.path[2] not in PLUGIN_KEYS}


def _report_missing_module(
    table: str, name: str, keys: Mapping[str, Setting], findings: list[Finding]
) -> None:
    """Report a plugin without a module, unless it is only disabled."""
    for key, setting in keys.items():
        if key != "enabled":
            message = f"'{table}.{name}' has no 'module', and no shipped plugin has this name."
            place = setting.source.place or str(setting.source.layer)
            from vibe_llms.exceptions import Finding  # needed after an error only

            findings.append(Finding(place=place, line=setting.source.line, message=message))
            return
