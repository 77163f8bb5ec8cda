"""Find and read the layers: defaults, user, project, environment, command line."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vibe_llms.configuration.classes import (
    Configuration,
    ConfigurationFile,
    Layer,
    Setting,
    Source,
)
from vibe_llms.configuration.definitions import (
    ALIASES,
    ENVIRONMENT_PREFIX,
    SETTINGS,
    Definition,
    define_limit,
)
from vibe_llms.configuration.layer_reader import LayerReader, LayerValues
from vibe_llms.configuration.merging import Layers, merge_layers
from vibe_llms.configuration.paths import (
    FILE_VARIABLE,
    access_user_directory,
    access_user_file,
    find_project_file,
    resolve_path,
)
from vibe_llms.foundation.files import read_beginning, resolve_links
from vibe_llms.foundation.package_data import access_data
from vibe_llms.foundation.suggestions import find_nearest
from vibe_llms.tables.documents import MAXIMUM_FILE_BYTES, parse_document
from vibe_llms.tables.paths import KeyPath

if TYPE_CHECKING:
    from vibe_llms.exceptions import Finding


def load_configuration(
    *,
    command_line: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    working_directory: Path | None = None,
    user_text: str | None = None,
) -> Configuration:
    """Load the user's configuration.

    Args:
        command_line: Values by dotted name, such as ``{"model": "scripted:echo"}``.
        environment: The environment variables; by default those of the process.
        working_directory: The directory at which the search for a project's file starts; by default
            that of the process.
        user_text: The text to use instead of that of the user's file.

    Raises:
        ConfigurationError: The configuration is invalid; ``findings`` lists all errors.
    """
    loader = _Loader(environment, working_directory, user_text)
    configuration = loader.load(command_line or {})
    if loader.findings:
        from vibe_llms.exceptions import ConfigurationError  # needed after an error only

        raise ConfigurationError(findings=tuple(loader.findings))
    return configuration


def load_valid_part() -> tuple[Configuration, tuple[Finding, ...]]:
    """Load the valid part of the configuration, and return all errors with it."""
    loader = _Loader()
    configuration = loader.load({})
    return configuration, tuple(loader.findings)


class _File(NamedTuple):
    """The bytes of a file, read once, so that the parsed text and the digest match."""

    layer: Layer
    path: Path
    raw: bytes | None = None


class _Loader:
    """Loads the layers, and collects the errors in ``findings``."""

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        working_directory: Path | None = None,
        user_text: str | None = None,
    ) -> None:
        directory = Path.cwd() if working_directory is None else resolve_links(working_directory)
        self.environment = os.environ if environment is None else environment
        self.working_directory = directory
        self.user_text = user_text
        self.findings: list[Finding] = []
        self.definitions: dict[str, Definition] = dict(SETTINGS)
        self.provider_aliases: dict[str, str] = {}

    def load(self, command_line: Mapping[str, Any]) -> Configuration:
        files = self.read_files()
        # First, as the shipped defaults define the limits, which other layers may set.
        defaults = self.parse_file(files[Layer.DEFAULTS])
        self.definitions |= {
            setting.name: define_limit(setting.name)
            for setting in defaults.settings.values()
            if setting.path[0] == "limits"
        }
        self.provider_aliases = {
            path[1]: setting.value
            for path, setting in defaults.settings.items()
            if path[0] == ALIASES and ":" not in setting.value
        }
        user = self.parse_file(files[Layer.USER])
        for name in list(self.provider_aliases):
            if ("providers", name, "module") in user.settings:
                del self.provider_aliases[name]  # the user has a provider of that name
        project = files.get(Layer.PROJECT)
        layers = Layers(
            defaults=self.add_directories(defaults),
            user=user,
            project=self.parse_file(project) if project else LayerValues(),
            environment=self.read_environment(),
            command_line=self.read_command_line(command_line),
            project_file=project.path if project else None,
            project_digest=_digest(project.raw) if project and project.raw else "",
        )
        configuration = merge_layers(layers, self.definitions, self.findings)
        return configuration._replace(
            files=tuple(
                ConfigurationFile(layer=file.layer, path=file.path, exists=file.raw is not None)
                for file in files.values()
            ),
        )

    def read_files(self) -> dict[Layer, _File]:
        paths = {
            Layer.DEFAULTS: access_data("configuration", "defaults.toml"),
            Layer.USER: access_user_file(self.environment, self.working_directory),
            Layer.PROJECT: find_project_file(self.working_directory),
        }
        return {layer: self.read_file(layer, path) for layer, path in paths.items() if path}

    def read_file(self, layer: Layer, path: Path) -> _File:
        """Read a file; only the user's default file may be missing without an error."""
        if layer is Layer.USER and self.user_text is not None:
            return _File(layer=layer, path=path, raw=self.user_text.encode("utf-8"))
        raw = None
        try:
            # One byte more than the maximum: this detects a file that is too large.
            raw = read_beginning(path, MAXIMUM_FILE_BYTES + 1)
        except FileNotFoundError:
            # A file named by the variable must exist.
            if layer is not Layer.USER or self.environment.get(FILE_VARIABLE):
                self.report(path, "The file does not exist.")
        except OSError as error:
            self.report(path, f"Cannot read the file: {error.strerror}.")
        if raw is not None and len(raw) > MAXIMUM_FILE_BYTES:
            self.report(path, f"A configuration file has at most {MAXIMUM_FILE_BYTES} bytes.")
            raw = None
        return _File(layer=layer, path=path, raw=raw)

    def parse_file(self, file: _File) -> LayerValues:
        if file.raw is None:
            return LayerValues()
        try:
            document = parse_document(file.raw, str(file.path))
        except ValueError as error:
            from vibe_llms.exceptions import ConfigurationError  # needed after an error only

            if not isinstance(error, ConfigurationError):
                raise
            self.findings += error.findings
            return LayerValues()
        return self.produce_reader(
            file.layer,
            lambda path: Source(file.layer, document.place, document, path),
            file.path.parent,
        ).read_layer(document.tree)

    def read_environment(self) -> LayerValues:
        definitions = {each.variable: each for each in self.definitions.values()}
        tree: dict[str, Any] = {}
        for variable, text in self.environment.items():
            # An empty variable counts as unset.
            if not variable.startswith(ENVIRONMENT_PREFIX) or variable == FILE_VARIABLE or not text:
                continue
            if definition := definitions.get(variable):
                _insert(tree, definition.name.split("."), definition.kind.parse(text))
            else:
                self.check_variable(variable, definitions)
        variables = {each.name: each.variable for each in self.definitions.values()}
        return self.produce_reader(
            Layer.ENVIRONMENT,
            lambda path: Source(Layer.ENVIRONMENT, variables[".".join(map(str, path))]),
            self.working_directory,
        ).read_layer(tree)

    def check_variable(self, variable: str, known: Mapping[str, Definition]) -> None:
        """Report an unknown variable that resembles a known one; others may be for plugins."""
        suffixes = [name.removeprefix(ENVIRONMENT_PREFIX) for name in known]
        nearest = find_nearest(variable.removeprefix(ENVIRONMENT_PREFIX), suffixes)
        if nearest:
            message = f"Unknown variable; did you mean {ENVIRONMENT_PREFIX}{nearest}?"
            self.report_place(variable, message)

    def read_command_line(self, values: Mapping[str, Any]) -> LayerValues:
        tree: dict[str, Any] = {}
        for name, value in values.items():
            if not _insert(tree, name.split("."), value):
                message = f"{name!r} has both a value and a table of values."
                self.report_place(str(Layer.COMMAND_LINE), message)
        return self.produce_reader(
            Layer.COMMAND_LINE, lambda path: Source(Layer.COMMAND_LINE), self.working_directory
        ).read_layer(tree)

    def produce_reader(
        self, layer: Layer, produce_source: Callable[[KeyPath], Source], base: Path
    ) -> LayerReader:
        return LayerReader(
            layer=layer,
            definitions=self.definitions,
            produce_source=produce_source,
            resolve=functools.partial(resolve_path, base=base, environment=self.environment),
            findings=self.findings,
            provider_aliases=self.provider_aliases,
        )

    def add_directories(self, defaults: LayerValues) -> LayerValues:
        """Add the operating system's directories to the shipped defaults."""
        settings = dict(defaults.settings)
        for kind in ("data", "cache"):
            path = ("directories", kind)
            directory = access_user_directory(kind, self.environment)
            settings[path] = Setting(path, directory, Source(Layer.DEFAULTS))
        return LayerValues(settings, defaults.overrides)

    def report(self, path: Path, message: str, line: int = 0) -> None:
        self.report_place(str(path), message, line)

    def report_place(self, place: str, message: str, line: int = 0) -> None:
        from vibe_llms.exceptions import Finding  # needed after an error only

        self.findings.append(Finding(place=place, line=line, message=message))


def _insert(tree: dict[str, Any], path: Sequence[str], value: Any) -> bool:
    """Insert a value into a tree of tables, as if it was in a file.

    Returns:
        Whether that was possible: false if a part of the path is a value, or set already.
    """
    table: Any = tree
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            return False
    if isinstance(value, Mapping):  # copied, so that the caller's own does not change
        table = table.setdefault(path[-1], {})
        if not isinstance(table, dict):
            return False
        results = [_insert(table, (name,), inner) for name, inner in value.items()]
        return all(results)
    if path[-1] in table:
        return False
    table[path[-1]] = value
    return True


def _digest(raw: bytes) -> str:
    import hashlib  # only a project's file needs it

    return hashlib.sha256(raw).hexdigest()
