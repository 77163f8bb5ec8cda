"""Other programs' files of MCP servers: JSON with ``mcpServers``.

Claude Desktop, Claude Code, Cursor, Cline and other programs write such files; VS Code calls the
table ``servers``.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.foundation.child_environment import remember_key
from vibe_llms.tables.paths import KeyPath
from vibe_llms.tables.reading import TableReader

_logger = logging.getLogger(__name__)

TABLES: Final = ("mcpServers", "servers")
"""Names of the table of servers in such a file."""

_KEYS: Final = {
    "command": "command",
    "args": "arguments",
    "env": "environment",
    "cwd": "directory",
    "url": "url",
    "serverUrl": "url",
    "httpUrl": "url",
    "headers": "headers",
    "alwaysAllow": "allowed",
    "autoApprove": "allowed",
    "disabledTools": "hidden_tools",
}
"""Maps their keys to the fields of :class:`.settings.McpServer`."""

_TYPES: Final = (None, "stdio", "http", "streamable-http", "streamableHttp")
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}")


def translate_servers(
    servers: Any, path: KeyPath, reader: TableReader
) -> list[tuple[KeyPath, str, dict[str, Any]]]:
    """Translate the tables of the servers; leave disabled ones out.

    Variables, as ``${TOKEN}``, are replaced. Keys specific to another program are left out, with a
    warning.
    """
    translated = []
    for name, server in reader.survey(path, servers):
        place = (*path, name)
        if not isinstance(server, Mapping):
            reader.report(place, "Set a command or a url.")
        elif server.get("type", server.get("transport")) not in _TYPES:
            reader.report(place, "Unsupported transport. Use stdio or streamable HTTP.")
        elif not server.get("disabled"):
            translated.append((place, name, _translate(name, server, place, reader)))
    return translated


def _translate(
    name: str, server: Mapping[str, Any], place: KeyPath, reader: TableReader
) -> dict[str, Any]:
    ignored = server.keys() - _KEYS.keys() - {"type", "transport", "disabled"}
    if ignored:
        _logger.warning("MCP server %s: %s is ignored.", name, ", ".join(sorted(ignored)))
    return {
        field: _expand(server[key], (*place, key), reader)
        for key, field in _KEYS.items()
        if server.get(key) is not None
    }


def _expand(value: Any, place: KeyPath, reader: TableReader) -> Any:
    """Replace the variables in all texts of a value."""
    if isinstance(value, Mapping):
        return {name: _expand(each, (*place, name), reader) for name, each in value.items()}
    if isinstance(value, list):
        return [_expand(each, place, reader) for each in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        variable, default = match["name"], match["default"]
        if variable not in os.environ and default is None:
            reader.report(place, f"The environment variable {variable} is not set.")
        remember_key(variable)
        return os.environ.get(variable, default or "")

    return _VARIABLE.sub(replace, value)
