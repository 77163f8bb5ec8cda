"""Settings of one MCP server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import attrs

from vibe_llms.configuration.classes import Configuration, Setting
from vibe_llms.exceptions import UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import expand_home
from vibe_llms.foundation.secrets import Secret, Settings
from vibe_llms.invocables.mcp.oauth.settings import OAuthSettings
from vibe_llms.invocables.mcp.secret_texts import SecretText
from vibe_llms.tables.annotations import Amount, Strings, Wait
from vibe_llms.tables.documents import Document, read_bytes, read_document
from vibe_llms.tables.kinds import WEB_ADDRESS, Choice
from vibe_llms.tables.paths import KeyPath
from vibe_llms.tables.reading import TableReader, locate_by_name, require

PROTOCOLS: Final = ("auto", "2025-11-25", "2026-07-28")
"""Choices of the protocol: the newest version that both sides support, the version with sessions,
and the version without sessions."""

_SECRET_CHARACTERS: Final = 8
"""Minimum length of an environment variable's value to count as a secret."""

LAZY_ABOVE: Final = 40
"""Number of tools above which a model gets a search tool, unless ``lazy`` is configured."""


def _ensure_secrets(texts: Mapping[str, str | Secret]) -> Mapping[str, Secret]:
    return Settings(
        {
            name: text if isinstance(text, Secret) else Secret(str(text))
            for name, text in texts.items()
        }
    )


def _ensure_texts(texts: Iterable[str]) -> tuple[str, ...]:
    # A single string would be split into its letters.
    return (texts,) if isinstance(texts, str) else tuple(texts)


@frozen(kw_only=True, eq=False)
class McpServer:
    """Settings of one MCP server: the transport, limits, and the offered tools.

    Attributes:
        name: The server's name, which is the prefix of its tools if a prefix is needed.
        command: The program to start, which communicates over its standard input and output.
        arguments: The program's arguments.
        environment: Environment variables for the program. In addition, it inherits only the few
            that every program needs, and so no keys.
        directory: The program's working directory; by default the current directory.
        url: The address of a server over HTTP, instead of a command.
        headers: HTTP headers of each request.
        oauth: The OAuth settings, if the server requires authorization.
        protocol: ``auto`` for the newest version that both support, or ``2025-11-25``, or
            ``2026-07-28``.
        connect_seconds: Timeout for starting and connecting.
        answer_seconds: Timeout of requests other than calls, such as a page of a list.
        call_seconds: Timeout of one call.
        restarts: Maximum number of consecutive restarts or reconnections of a server that ends.
        tools: Patterns such as ``read_*``; only tools that match one are offered.
        hidden_tools: Patterns of tools that are not offered.
        allowed: Patterns of tools that are called without an approval.
        needs_approval: True if all other calls need an approval.
        trust_annotations: True to trust the server's annotations of its tools: that a tool only
            reads, and so needs no approval, or that it can be repeated.
        lazy: True to give the model a search tool instead of all tools; by default, if there are
            more than 40.
        log_path: A file for the server's log output.

    Raises:
        ConfigurationError: The server has no transport, or two; or a value is invalid.
    """

    name: str
    command: str = ""
    arguments: Strings = attrs.field(default=(), converter=_ensure_texts, repr=False)
    environment: Mapping[str, SecretText] = attrs.field(
        factory=dict, converter=_ensure_secrets, repr=False
    )
    directory: Path | None = None
    url: Annotated[str, WEB_ADDRESS] = attrs.field(default="", repr=False)
    headers: Mapping[str, SecretText] = attrs.field(
        factory=dict, converter=_ensure_secrets, repr=False
    )
    oauth: OAuthSettings | None = attrs.field(default=None, repr=False)
    protocol: Annotated[str, Choice(PROTOCOLS)] = "auto"
    connect_seconds: Wait = 30.0
    answer_seconds: Wait = 60.0
    call_seconds: Wait = 300.0
    restarts: Amount = 5
    tools: Strings = attrs.field(default=("*",), converter=_ensure_texts)
    hidden_tools: Strings = attrs.field(default=(), converter=_ensure_texts)
    allowed: Strings = attrs.field(default=(), converter=_ensure_texts)
    needs_approval: bool = True
    trust_annotations: bool = False
    lazy: bool | None = None
    log_path: Path | None = None

    def __attrs_post_init__(self) -> None:
        require(self, f"mcp.{self.name}")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield each contradiction: the field or an empty text, and the message."""
        places = [each for each in (self.command, self.url) if each]
        if len(places) != 1:
            yield "", "Set either a command to start the server, or the url of a running one."
        transport = "command" if self.command else "url"
        for key in _HTTP_FIELDS if self.command else _COMMAND_FIELDS:
            if getattr(self, key):
                yield key, f"It has no effect for a server with {transport}."

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The server's secrets, for redaction; short environment variables do not count."""
        secrets = [
            each for each in self.environment.values() if len(each.reveal()) >= _SECRET_CHARACTERS
        ]
        secrets += self.headers.values()
        if self.url and (password := urlsplit(self.url).password):
            secrets.append(Secret(password))
        return tuple(secrets)

    def is_same(self, other: McpServer) -> bool:
        """Return whether another server has equal settings, including secrets."""
        return _reveal_fields(self) == _reveal_fields(other)

    def offers(self, tool: str) -> bool:
        """Return whether a tool is offered to the model."""
        return _matches(tool, self.tools) and not _matches(tool, self.hidden_tools)

    def allows(self, tool: str) -> bool:
        """Return whether the user permits a tool's calls without an approval."""
        return _matches(tool, self.allowed)


_SECRET_FIELDS: Final = ("environment", "headers")
_COMMAND_FIELDS: Final = ("arguments", "environment", "directory", "log_path")
_HTTP_FIELDS: Final = ("headers", "oauth")


def _reveal_fields(server: McpServer) -> dict[str, Any]:
    """Return all fields of a server, with its secrets as texts."""
    fields = attrs.asdict(server, recurse=False)
    for key in _SECRET_FIELDS:
        fields[key] = {name: secret.reveal() for name, secret in fields[key].items()}
    return fields


def _matches(name: str, patterns: Iterable[str]) -> bool:
    # fnmatch would ignore case on some operating systems.
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def access_servers(
    configuration: Configuration, sources: Sequence[str] | None = None
) -> tuple[McpServer, ...]:
    """Return the servers of some sources, each once.

    Args:
        configuration: The configuration.
        sources: Names of configured servers, and paths of files with servers; ``None`` for all
            configured servers.

    Raises:
        UnknownNameError: A source is neither a configured server nor a file.
        ConfigurationError: The settings of a server are invalid.
    """
    configured = configuration.servers
    servers: dict[str, McpServer] = {}
    for source in configured if sources is None else dict.fromkeys(sources):
        if source in configured:
            source_servers = _produce_configured(source, configured[source])
        elif source.endswith(".toml") or Path(source).is_file():
            source_servers = read_servers(expand_home(source))
        else:
            remedy = f"Configure it: [mcp.{source}] with its command or its url; or name a file."
            names = tuple(configured)
            raise UnknownNameError(kind="MCP server", name=source, known=names, remedy=remedy)
        servers |= {server.name: server for server in source_servers}
    directory = configuration.cache_directory / "mcp"
    return tuple(_ensure_log(server, directory) for server in servers.values())


def _produce_configured(name: str, settings: Mapping[str, Setting]) -> tuple[McpServer, ...]:
    """Create a server from its table; paths are relative to the file that defines its transport."""
    transport = settings.get("command") or settings.get("url")
    place = Path(transport.source.place) if transport is not None else Path()
    base = place.parent if place.is_file() else None
    values = {key: setting.value for key, setting in settings.items()}
    return produce_servers({name: values}, base)


def _ensure_log(server: McpServer, directory: Path) -> McpServer:
    if server.url or server.log_path is not None:
        return server
    return attrs.evolve(server, log_path=directory / f"{server.name}.log")


def read_servers(path: Path) -> tuple[McpServer, ...]:
    """Read a file of MCP servers.

    The file contains tables ``[mcp.NAME]``, like the configuration; or the keys of one server,
    named after the file by default; or JSON with ``mcpServers``, as other programs write it.
    Relative paths start at the file's directory.

    Raises:
        ConfigurationError: The file is invalid; the message lists all mistakes.
    """
    if path.suffix == ".json":
        return _read_foreign(path)
    document = read_document(path)
    reader, tree = document.produce_reader(path.absolute().parent), document.tree
    if tree.keys() != {"mcp"}:
        return _read_servers(reader, [((), path.stem, tree)])
    tables = reader.survey(("mcp",), tree["mcp"])
    return _read_servers(reader, [(("mcp", name), name, table) for name, table in tables])


def _read_foreign(path: Path) -> tuple[McpServer, ...]:
    from vibe_llms.invocables.mcp.foreign import TABLES, translate_servers

    problem, tree = "", {}
    try:
        tree = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        problem = f"Invalid JSON: {error}."
    name = next((name for name in TABLES if isinstance(tree, dict) and name in tree), "")
    reader = Document(str(path), "", tree).produce_reader(path.absolute().parent)
    if not name:
        reader.report((), problem or '"mcpServers" is missing: an object of servers by name.')
        reader.finish()
    return _read_servers(reader, translate_servers(tree[name], (name,), reader))


def produce_servers(tables: Mapping[str, Any], base: Path | None = None) -> tuple[McpServer, ...]:
    """Create servers from tables, by name.

    Args:
        base: The directory of relative paths; by default the current one.

    Raises:
        ConfigurationError: The tables are invalid; the message lists all mistakes.
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
    fields = {"name": name, **table} if isinstance(table, Mapping) else table
    server = reader.read(McpServer, fields, path)
    # A command without a slash is searched on the PATH; others are relative to the file.
    if server is None or "/" not in server.command:
        return server
    return attrs.evolve(server, command=str(reader.base / expand_home(server.command)))
