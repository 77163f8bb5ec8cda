"""Edit values in the user's file; the rest of the file does not change.

Invalid changes are refused before anything is written, and the file is replaced atomically.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli

from vibe_llms.configuration.classes import Configuration, Layer
from vibe_llms.configuration.paths import access_user_file
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ConfigurationError, Finding, UnknownNameError
from vibe_llms.foundation.files import read_regular, replace_file, resolve_links
from vibe_llms.tables.documents import MAXIMUM_FILE_BYTES
from vibe_llms.tables.paths import write_path
from vibe_llms.tables.toml_lines import locate_keys


class FileDraft:
    """The user's file with changes that are not saved yet.

    Attributes:
        file: Its path, with links resolved. It may not exist yet.
        text: Its new text.

    Raises:
        ConfigurationError: The file cannot be read.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._place = access_user_file(environment, Path.cwd())
        # Resolve links: replacing a link by a file would separate it from a user's dotfiles.
        self.file = resolve_links(self._place)
        self._original_text = self._read()
        self.text = self._original_text
        self._paths: list[tuple[str, ...]] = []

    def _read(self) -> str:
        """Read the file. Raise an error for a folder or a device, which must not be replaced."""
        try:
            return read_regular(str(self.file), MAXIMUM_FILE_BYTES).decode("utf-8")
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError:
            reason = "TOML files must be UTF-8"
        except OSError as error:
            reason = f"Cannot read the file: {error.strerror}"
        raise ConfigurationError.at(str(self.file), f"{reason}.")

    def set(self, name: str, value: str) -> None:
        """Set one value.

        Args:
            name: The dotted name, with the syntax of a TOML key.
            value: A TOML value; any other text is taken as a string.

        Raises:
            ConfigurationError: The name is invalid, a part of it is a value and not a table, or the
                file is not TOML.
        """
        import tomlkit  # only editing needs this library

        document: Any = self._parse()
        *tables, key = path = read_name(name)
        table = document
        for position, part in enumerate(tables):
            if part not in table:
                if position == 0 and self.text.strip():
                    document.add(tomlkit.nl())
                table[part] = tomlkit.table(is_super_table=position < len(tables) - 1)
            table = table[part]
            if not isinstance(table, dict):
                raise ConfigurationError.at(
                    name, f"{'.'.join(path[: position + 1])!r} is not a table."
                )
        table[key] = read_value(value)
        self._paths.append(path)
        self.text = tomlkit.dumps(document).rstrip("\n") + "\n"

    def unset(self, name: str) -> None:
        """Remove a value, and the tables that become empty.

        Raises:
            UnknownNameError: The file does not set it; lists the names that it sets, nearest first.
        """
        import tomlkit

        document: Any = self._parse()
        path = read_name(name)
        values = [document]  # the root, then the value of each part of the name
        for part in path:
            if not isinstance(values[-1], dict) or part not in values[-1]:
                known = tuple(_survey_names(document.unwrap()))
                remedy = f"Only settings in {self.file} can be unset."
                raise UnknownNameError(kind="setting", name=name, known=known, remedy=remedy)
            values.append(values[-1][part])
        *tables, _ = values
        del tables[-1][path[-1]]
        # From the inside out, remove each table that has become empty.
        for table, part in zip(reversed(tables[:-1]), reversed(path[:-1]), strict=True):
            if not table[part]:
                del table[part]
        self.text = tomlkit.dumps(document)

    def load(self) -> Configuration:
        """Load the configuration with the changed file; writes nothing.

        Raises:
            ConfigurationError: The configuration would be invalid. It lists all errors by line, but
                those of changed values by name.
        """
        try:
            return load_configuration(environment=self._environment, user_text=self.text)
        except ConfigurationError as error:
            error.findings = tuple(map(self.name_key, error.findings))
            raise

    def name_key(self, finding: Finding) -> Finding:
        """Replace the line of a finding about a changed value, which has none yet, by its name."""
        if finding.place != str(self._place):
            return finding
        original_paths = locate_keys(self._original_text)
        for path in self._paths:
            tables = [path[:length] for length in range(1, len(path))]
            new_paths = [path, *(table for table in tables if table not in original_paths)]
            if finding.path in map(write_path, new_paths):
                return Finding(place=".".join(path), message=finding.message)
        return finding

    def save(self) -> None:
        """Write the file atomically. Raises OSError."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        # A new file is readable by the user only, as it may get keys; an existing one keeps its
        # mode.
        mode = None if self.file.exists() else 0o600
        replace_file(self.file, self.text.encode("utf-8"), mode=mode)

    def _parse(self) -> Any:
        import tomlkit
        from tomlkit.exceptions import ParseError

        try:
            return tomlkit.parse(self.text)
        except ParseError as error:
            message = f"Invalid TOML: {error}."
            raise ConfigurationError.at(str(self.file), message, error.line) from error


def read_name(name: str) -> tuple[str, ...]:
    """Parse a dotted name as TOML does: ``aliases."a.b"`` has two parts.

    Unlike in TOML, so has ``aliases.a.b``: all after the first dot is the name of the alias.

    Raises:
        ConfigurationError: The name is invalid.
    """
    try:
        tree: Any = tomli.loads(f"{name} = 0")
    except tomli.TOMLDecodeError:
        tree = {}
    path: list[str] = []
    while isinstance(tree, dict) and len(tree) == 1:
        ((part, tree),) = tree.items()
        path.append(part)
    # After a line end, TOML would read further keys.
    if not path or tree != 0 or "\n" in name:
        raise ConfigurationError.at(name, "Invalid name of a setting; write it as limits.attempts.")
    if path[0] == "aliases" and len(path) > 1:
        return "aliases", ".".join(path[1:])
    return tuple(path)


def read_value(text: str) -> Any:
    """Parse a TOML value; any other text is taken as a string."""
    try:
        tree = tomli.loads(f"value = {text}")
    except tomli.TOMLDecodeError:
        return text
    # A text with line ends may be parsed as several keys.
    return tree["value"] if tree.keys() == {"value"} else text


def find_overriding_place(configuration: Configuration, name: str) -> str:
    """Return the place that overrides a setting of the user's file; empty if none does."""
    setting = configuration.settings.get(".".join(read_name(name)))
    if setting is None or setting.source.layer in (Layer.DEFAULTS, Layer.USER):
        return ""
    return str(setting.source)


def _survey_names(tree: Mapping[str, Any], prefix: str = "") -> list[str]:
    names = []
    for key, value in tree.items():
        names.append(f"{prefix}{key}")
        if isinstance(value, Mapping):
            names += _survey_names(value, f"{prefix}{key}.")
    return names
