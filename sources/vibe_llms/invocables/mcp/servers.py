"""Reads what a user wrote about MCP servers: a file, or tables of the configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from vibe_llms.concealment import remember_key
from vibe_llms.configuration.classes import Configuration, Setting
from vibe_llms.encodings import explain_misencoding
from vibe_llms.exceptions import ConfigurationError, Finding, UnknownNameError
from vibe_llms.files import read_file
from vibe_llms.invocables.mcp.oauth import OAuthSettings, read_oauth
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.nearness import suggest
from vibe_llms.secrets import Secret

MAXIMUM_FILE_BYTES: Final = 1_000_000


def access_servers(
    configuration: Configuration, sources: Sequence[str] | None = None
) -> tuple[McpServer, ...]:
    """Returns the servers that are meant, each once.

    Args:
        sources: Names of servers that are configured, and paths of files that name some;
            ``None`` for all that are configured.

    Raises:
        UnknownNameError: There is neither such a server nor such a file.
        ConfigurationError: What is said about one of them does not hold.
    """
    configured = configuration.servers
    wanted = list(configured) if sources is None else list(dict.fromkeys(sources))
    servers: dict[str, McpServer] = {}
    for source in wanted:
        if source in configured:
            found = _produce_configured(source, configured[source])
        elif source.endswith(".toml") or Path(source).is_file():
            found = read_servers(Path(source).expanduser())
        else:
            remedy = f"Configure it: [mcp.{source}] with its command or its url; or name a file."
            known = tuple(configured)
            raise UnknownNameError(kind="MCP server", name=source, known=known, remedy=remedy)
        servers |= {server.name: server for server in found}
    directory = configuration.cache_directory / "mcp"
    return tuple(_ensure_log(server, directory) for server in servers.values())


def _produce_configured(name: str, settings: Mapping[str, Setting]) -> tuple[McpServer, ...]:
    """Makes a server of its table; paths are meant from the file that says how to reach it."""
    reaching = settings.get("command") or settings.get("url")
    place = Path(reaching.source.place) if reaching is not None else Path()
    base = place.parent if place.is_file() else None
    values = {key: setting.value for key, setting in settings.items()}
    return produce_servers({name: values}, base)


def _ensure_log(server: McpServer, directory: Path) -> McpServer:
    if server.url or server.log_path is not None:
        return server
    return attrs.evolve(server, log_path=directory / f"{server.name}.log")


def read_servers(path: Path) -> tuple[McpServer, ...]:
    """Reads a file of MCP servers.

    It holds tables ``[mcp.NAME]``, as the configuration does; or the keys of one server alone,
    which then has the file's name unless it says another. Paths in it are meant from where it
    lies.

    Raises:
        ConfigurationError: With all the mistakes in it.
    """
    import tomli

    try:
        raw = read_file(path)
        if len(raw) > MAXIMUM_FILE_BYTES:
            raise _refuse(path, f"A file of servers has at most {MAXIMUM_FILE_BYTES} bytes.")
        tree = tomli.loads(raw.decode("utf-8"))
    except OSError as error:
        raise _refuse(path, f"This file cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise _refuse(path, explain_misencoding(raw, "This file", path=str(path))) from error
    except (tomli.TOMLDecodeError, RecursionError) as error:
        raise _refuse(path, f"This is not TOML: {error}.") from error
    tables = tree.get("mcp") if set(tree) == {"mcp"} else {path.stem: tree}
    if not isinstance(tables, Mapping):
        raise _refuse(path, "'mcp' must hold tables: write [mcp.NAME].")
    return produce_servers(tables, path.absolute().parent)


def produce_servers(tables: Mapping[str, Any], base: Path | None = None) -> tuple[McpServer, ...]:
    """Makes servers of tables, by name.

    Args:
        base: The directory from which paths are meant; by default where we are.

    Raises:
        ConfigurationError: With all the mistakes in them.
    """
    findings: list[Finding] = []
    servers: list[McpServer] = []
    for name, table in tables.items():
        try:
            servers.append(_produce_server(name, table, base or Path.cwd()))
        except ConfigurationError as error:
            findings.extend(error.findings)
    if findings:
        raise ConfigurationError(findings=tuple(findings))
    return tuple(servers)


def _produce_server(name: str, table: Any, base: Path) -> McpServer:
    place = f"mcp.{name}"
    if not isinstance(table, Mapping):
        raise ConfigurationError(
            findings=(Finding(place=place, message=f"It must be a table: write [{place}]."),)
        )
    findings = [
        Finding(place=f"{place}.{key}", message=message) for key, message in _find_mistakes(table)
    ]
    values = {key: value for key, value in table.items() if key in _CHECKS}
    for key in ("environment", "headers"):
        if isinstance(values.get(key), Mapping):
            values[key] = _read_secrets(values[key], f"{place}.{key}", base, findings)
    if isinstance(values.get("oauth"), Mapping):
        values["oauth"] = _read_oauth(values["oauth"], f"{place}.oauth", base, findings)
    if findings:
        raise ConfigurationError(findings=tuple(findings))
    for key in ("directory", "log_path"):
        if key in values:
            values[key] = base / Path(values[key]).expanduser()
    command = str(values.get("command", ""))
    if "/" in command:
        values["command"] = str(base / Path(command).expanduser())
    return McpServer(**{"name": name, **values})


def _read_oauth(
    table: Mapping[str, Any], place: str, base: Path, findings: list[Finding]
) -> OAuthSettings | None:
    key = "client_secret"
    told = {key: table[key]} if key in table else {}
    secrets = _read_secrets(told, place, base, findings)
    try:
        return read_oauth({**table, **secrets}, place)
    except ConfigurationError as error:
        findings.extend(error.findings)
        return None


def _find_mistakes(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if key not in _CHECKS:
            yield key, f"A server has no such setting{suggest(key, _CHECKS)}"
            continue
        is_right, words = _CHECKS[key]
        if not is_right(value):
            yield key, f"It must be {words}."


def _read_secrets(
    table: Mapping[str, Any], place: str, base: Path, findings: list[Finding]
) -> dict[str, Secret]:
    """Reads texts that may stand elsewhere: in a variable of ours, or in a file."""
    secrets = {}
    for name, value in table.items():
        try:
            secrets[name] = _read_secret(value, base)
        except ValueError as error:
            findings.append(Finding(place=f"{place}.{name}", message=str(error)))
    return secrets


def _read_secret(value: Any, base: Path) -> Secret:
    if isinstance(value, str):
        return Secret(value)
    match value:
        case {"variable": str() as variable, **rest} if set(rest) <= {"prefix"}:
            text = os.environ.get(variable)
            if text is None:
                raise ValueError(f"The environment variable {variable} is not set.")
            remember_key(variable)
        case {"file": str() as name, **rest} if set(rest) <= {"prefix"}:
            try:
                text = read_file(base / Path(name).expanduser()).decode().strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is not UTF-8"
                raise ValueError(f"{name} cannot be read: {reason}.") from None
        case _:
            raise ValueError(
                'It must be a text, or say where it stands: {variable = "NAME"} or'
                ' {file = "PATH"}, perhaps with prefix = "Bearer ".'
            )
    return Secret(f"{rest.get('prefix', '')}{text}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_KINDS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "boolean": (_is_boolean, "true or false"),
    "count": (_is_count, "a whole number"),
    "list": (_is_list, "a list of texts"),
    "seconds": (_is_number, "a number of seconds"),
    "table": (_is_table, "a table"),
    "text": (_is_text, "a text that is not empty"),
}
_FIELD_KINDS: Final = {
    "arguments": "list",
    "environment": "table",
    "headers": "table",
    "oauth": "table",
    "connect_seconds": "seconds",
    "answer_seconds": "seconds",
    "call_seconds": "seconds",
    "restarts": "count",
    "tools": "list",
    "hidden_tools": "list",
    "allowed": "list",
    "needs_approval": "boolean",
    "trust_annotations": "boolean",
    "lazy": "boolean",
}
_CHECKS: Final = {
    field.name: _KINDS[_FIELD_KINDS.get(field.name, "text")] for field in attrs.fields(McpServer)
}
"""What each key of a server's table must be."""

KEYS: Final = {key: words for key, (_, words) in _CHECKS.items() if key != "name"}
"""The keys of a server's table, and what each must be in words."""


def _refuse(path: Path, message: str) -> ConfigurationError:
    return ConfigurationError(findings=(Finding(place=str(path), message=message),))
