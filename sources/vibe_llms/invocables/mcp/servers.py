"""Reads what a user wrote about MCP servers: a file, or tables of the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from vibe_llms.configuration.classes import Configuration, Setting
from vibe_llms.exceptions import UnknownNameError
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.tables.documents import read_document
from vibe_llms.tables.reading import KeyPath, TableReader, locate_by_name


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
    document = read_document(path)
    reader, tree = document.produce_reader(path.absolute().parent), document.tree
    if tree.keys() != {"mcp"}:
        return _read_servers(reader, [((), path.stem, tree)])
    tables = reader.survey(("mcp",), tree["mcp"])
    return _read_servers(reader, [(("mcp", name), name, table) for name, table in tables])


def produce_servers(tables: Mapping[str, Any], base: Path | None = None) -> tuple[McpServer, ...]:
    """Makes servers of tables, by name.

    Args:
        base: The directory from which paths are meant; by default where we are.

    Raises:
        ConfigurationError: With all the mistakes in them.
    """
    reader = TableReader(locate_by_name(), base=base or Path.cwd())
    return _read_servers(reader, [(("mcp", name), name, table) for name, table in tables.items()])


def _read_servers(
    reader: TableReader, tables: Iterable[tuple[KeyPath, str, Any]]
) -> tuple[McpServer, ...]:
    servers = [_read_server(reader, path, name, table) for path, name, table in tables]
    reader.finish()
    return tuple(filter(None, servers))


def _read_server(reader: TableReader, path: KeyPath, name: str, table: Any) -> McpServer | None:
    written = {"name": name, **table} if isinstance(table, Mapping) else table
    server = reader.read(McpServer, written, path)
    if server is None or "/" not in server.command:
        return server
    return attrs.evolve(server, command=str(reader.base / Path(server.command).expanduser()))
