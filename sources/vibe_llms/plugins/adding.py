"""Adding and removing a plugin: its package and its tables in the user's configuration.

A new package is first installed and examined in a temporary folder. The tables are written last, in
one step, so that a failure leaves nothing behind.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vibe_llms.configuration.classes import Configuration, Layer, PluginEntry, Source
from vibe_llms.configuration.editing import FileDraft
from vibe_llms.configuration.redaction import redact_addresses
from vibe_llms.exceptions import PluginError, TrustError, UnknownNameError
from vibe_llms.foundation.files import expand_home, read_file, resolve_links
from vibe_llms.plugins.availability import is_importable
from vibe_llms.plugins.installation import Pip, read_requirement, write_command
from vibe_llms.plugins.specification.hooks import ALWAYS_IN_USE
from vibe_llms.processes.finished_programs import run_program

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from vibe_llms.plugins.specification.users import Consent

_PROBE_SECONDS: Final = 60.0
"""Time limit for importing the modules of a plugin."""

_PROBE: Final = """
import importlib, json, sys
sys.path.append(sys.argv[1])
found = {}
for name in sys.argv[2:]:
    for hook, function in vars(importlib.import_module(name)).items():
        if hasattr(function, "vibe_llms_impl"):
            found.setdefault(name, {})[hook] = [getattr(each, "name", "") for each in function()]
print("\\n" + json.dumps(found))
"""


def add_plugin(
    package: str, configuration: Configuration, consent: Consent
) -> tuple[PluginEntry, ...]:
    """Install a package after consent, and write the tables of its plugins.

    A package that this Python has already, such as an editable one, is not installed again.

    Args:
        package: A requirement, as ``hello-provider >= 1``, or the path of a folder or a wheel.

    Returns:
        The added entries.

    Raises:
        ConfigurationError: The requirement or the user's file is invalid.
        DependencyError: pip fails.
        TrustError: The user does not consent.
        PluginError: The package has no hooks, or cannot be imported, or its entries already exist.
    """
    requirement = _read_package(package)
    entry = PluginEntry("plugins", requirement.name, "", Source(Layer.COMMAND_LINE))
    home = configuration.data_directory / "plugins"
    shown = redact_addresses(str(requirement))
    command = write_command("install", shown)
    if not consent.ask(
        f"package:{shown}",
        f"Install {shown} with pip into {home}, and let vibe run its code?",
    ):
        raise TrustError(
            subject=f"package:{shown}",
            detail=f"{shown} was not added: the installation was not confirmed.",
            remedy="Answer yes, or use --yes.",
        )
    modules = _survey_installed(requirement)
    if modules is not None:
        hooks_by_module = _probe(requirement, modules, "")
        return _write(hooks_by_module, "", None, configuration)
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home, prefix=".draft-") as draft:
        new = Path(draft, "new")
        pip = Pip(entry=entry, requirement=requirement, advice=f"To see more, run: {command}")
        pip.install(pip.plan(), new)
        (distribution,) = importlib.metadata.distributions(name=requirement.name, path=[str(new)])
        hooks_by_module = _probe(requirement, _survey_modules(distribution), str(new))
        return _write(hooks_by_module, str(requirement), new, configuration)


def find_user_entries(name: str, configuration: Configuration) -> tuple[PluginEntry, ...]:
    """Return the entries of a plugin in the user's file.

    Raises:
        UnknownNameError: The user's file has no such plugin.
    """
    user_entries = [entry for entry in configuration.plugins if entry.source.layer is Layer.USER]
    if entries := tuple(entry for entry in user_entries if entry.name == name):
        return entries
    is_shipped = any(entry.name == name for entry in configuration.plugins)
    raise UnknownNameError(
        kind="plugin",
        name=name,
        known=tuple(sorted({entry.name for entry in user_entries})),
        detail=f"The plugin {name!r} is not in your configuration file." if is_shipped else "",
        remedy=f"To disable it: vibe config set plugins.disabled '[\"{name}\"]'"
        if is_shipped
        else "",
    )


def remove_plugin(name: str, configuration: Configuration) -> tuple[PluginEntry, ...]:
    """Remove the tables of a plugin from the user's file, and its package.

    Raises:
        UnknownNameError: The user's file has no such plugin.
    """
    entries = find_user_entries(name, configuration)
    draft = FileDraft()
    for entry in entries:
        draft.unset(f'{entry.table}."{name}"')
    draft.load()
    draft.save()
    shutil.rmtree(configuration.data_directory / "plugins" / name, ignore_errors=True)
    return entries


def _read_package(package: str) -> Requirement:
    path = expand_home(package)
    is_path = package.startswith((".", "~")) or package.endswith(".whl")
    # A requirement may have an address, and so slashes, after an "@".
    if not (is_path or "/" in package.partition("@")[0]):
        return read_requirement(package, Source(Layer.COMMAND_LINE))
    try:
        if path.suffix == ".whl":
            from packaging.utils import parse_wheel_filename

            name = str(parse_wheel_filename(path.name)[0])
            path.stat()
        else:
            import tomli

            name = tomli.loads(read_file(path / "pyproject.toml").decode())["project"]["name"]
    except (OSError, ValueError, KeyError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PluginError(
            plugin=package,
            detail=f"{path} is not a package: {reason}.",
            remedy="Name a folder with a pyproject.toml, a wheel, or a package on the index.",
        ) from error
    return read_requirement(f"{name} @ {resolve_links(path).as_uri()}", Source(Layer.COMMAND_LINE))


def _survey_installed(requirement: Requirement) -> Sequence[str] | None:
    """Return the modules of a distribution that is installed here; ``None`` if it is not."""
    # A path means the package there, even if one of that name is installed.
    if requirement.url is not None:
        return None
    try:
        distribution = importlib.metadata.distribution(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return None
    return _survey_modules(distribution)


def _survey_modules(distribution: importlib.metadata.Distribution) -> Sequence[str]:
    """Return the top-level modules of a distribution.

    An editable distribution lists none; its name then gives the module.
    """
    tops = {file.parts[0] for file in distribution.files or () if file.suffix == ".py"}
    # The record lists a script as "../../../bin", which is not a module.
    names = {top.removesuffix(".py") for top in tops if top != ".."}
    if names:
        return sorted(names)
    guess = distribution.metadata["Name"].replace("-", "_").lower()
    return [guess] if is_importable(guess) else []


def _probe(
    requirement: Requirement, modules: Sequence[str], directory: str
) -> dict[str, dict[str, list[str]]]:
    """Import modules in a separate process, and call their hooks.

    Returns:
        The names of the specifications that each hook returned, by module and hook.
    """
    result = run_program(
        [sys.executable, "-c", _PROBE, directory, *modules], seconds=_PROBE_SECONDS
    )
    if reason := result.explain():
        raise PluginError(
            plugin=requirement.name,
            detail=f"{requirement.name} cannot list its hooks: {reason}.",
            remedy="Nothing was added. Report this to the plugin's author.",
        )
    # The last line only: an imported module may print anything before it.
    hooks_by_module: dict[str, dict[str, list[str]]] = json.loads(result.output.splitlines()[-1])
    if not any(hooks_by_module.values()):
        raise PluginError(
            plugin=requirement.name,
            detail=f"{requirement.name} has no hooks in {', '.join(modules) or 'any module'}.",
            remedy="Nothing was added. If they are in a submodule, write its table by hand.",
        )
    return hooks_by_module


def _write(
    hooks_by_module: dict[str, dict[str, list[str]]],
    package: str,
    new: Path | None,
    configuration: Configuration,
) -> tuple[PluginEntry, ...]:
    """Write the tables of the plugins, and copy the package to where each looks for it.

    Args:
        hooks_by_module: The hooks, as :func:`_probe` returns them.
        package: The requirement for the tables; empty if the package is installed already.
        new: The folder of the new package; ``None`` if it is installed already.
    """
    entries = [
        entry for module, hooks in hooks_by_module.items() for entry in _name_entries(module, hooks)
    ]
    draft = FileDraft()
    known = {(entry.table, entry.name): entry for entry in configuration.plugins}
    added = []
    for table, name, module in entries:
        if (existing := known.get((table, name))) is not None:
            raise PluginError(
                plugin=name,
                detail=f"{name!r} already exists in [{table}] ({existing.source}).",
                remedy=f"Nothing was changed. To replace it, first run: vibe plugins remove {name}",
            )
        draft.set(f'{table}."{name}".module', json.dumps(module))
        if package:
            draft.set(f'{table}."{name}".package', json.dumps(package))
        source = Source(Layer.USER, str(draft.file))
        added.append(PluginEntry(table, name, module, source, package))
    draft.load()
    home = configuration.data_directory / "plugins"
    folders = [home / name for name in dict.fromkeys(entry.name for entry in added)]
    if new is None:
        draft.save()
        return tuple(added)
    try:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)  # left over: no table names it
            # A copy for each table, as each looks into a directory of its own name.
            shutil.copytree(new, folder)
        draft.save()
    # Also when interrupted: no package without a table may stay there.
    except BaseException:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return tuple(added)


def _name_entries(module: str, hooks: dict[str, list[str]]) -> list[tuple[str, str, str]]:
    """Return table, name and module of each table that a module needs."""
    short_name = module.removeprefix("vibe_").replace("_", "-")
    entries = []
    for table in ("providers", "ensembles"):
        for name in hooks.get(f"survey_{table}", ()):
            entries.append((table, short_name if name == "*" else name, module))
    if not entries or not ALWAYS_IN_USE.isdisjoint(hooks):
        entries.append(("plugins", short_name, module))
    return entries
