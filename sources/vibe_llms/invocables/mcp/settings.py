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
from vibe_llms.foundation.secrets import Secret, Settings
from vibe_llms.invocables.mcp.oauth.settings import OAuthSettings
from vibe_llms.invocables.mcp.secret_texts import SecretText
from vibe_llms.tables.annotations import Amount, Strings, Wait
from vibe_llms.tables.documents import Document, read_bytes, read_document
from vibe_llms.tables.kinds import WEB_ADDRESS, Choice
from vibe_llms.tables.paths import KeyPath
from vibe_llms.tables.reading import TableReader, locate_by_name, require

PROTOCOLS: Final = ("auto", "2025-11-25", "2026-07-28")
"""Choices of the protocol: the newest that both support, the era of sessions, or the era without.
"""

_SECRET: Final = 8
"""Minimum length of a variable that counts as a secret."""

LAZY_ABOVE: Final = 40
"""Above this number of tools a server's list is loaded lazily, unless configured."""


def _ensure_secrets(given: Mapping[str, str | Secret]) -> Mapping[str, Secret]:
    return Settings(
        {
            name: text if isinstance(text, Secret) else Secret(str(text))
            for name, text in given.items()
        }
    )


def _ensure_texts(given: Iterable[str]) -> tuple[str, ...]:
    # A single string would be split into its letters.
    return (given,) if isinstance(given, str) else tuple(given)


@frozen(kw_only=True, eq=False)
class McpServer:
    """One MCP server: how it is reached, what it may take, and what of it is offered.

    Attributes:
        name: The server's name, and the prefix of its tools where one is needed.
        command: The program to start; it is spoken to over its standard input and output.
        arguments: The program's arguments.
        environment: Variables for the program, besides the few that any program needs; it inherits
            no others, and so no keys.
        directory: Where the program is started; by default the current directory.
        url: The address of a server that is reached over HTTP instead.
        headers: Sent to it with each request.
        oauth: How to sign in with OAuth, if the server requires it.
        protocol: ``auto`` for the newest that both support, or ``2025-11-25``, or ``2026-07-28``.
        connect_seconds: How long starting and connecting may take.
        answer_seconds: Timeout of requests other than calls, such as a page of a list.
        call_seconds: How long one call may take.
        restarts: How often in a row a server that ends is restarted or reconnected.
        tools: Patterns such as ``read_*``; only tools that match one are offered.
        hidden_tools: Patterns of tools that are not offered.
        allowed: Patterns of tools that are called without an approval.
        needs_approval: Whether other calls need one.
        trust_annotations: Whether to believe what the server says about its tools: that one
            only reads, and so needs no approval, or that repeating it does no harm.
        lazy: Whether the model gets a search tool instead of all tools; by default if there are
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
        """Yield contradictions: a field or an empty text, and a sentence."""
        if bool(self.command) == bool(self.url):
            yield "", "Set either a command to start the server, or the url of a running one."
        way = "command" if self.command else "url"
        for key in _OF_ADDRESSES if self.command else _OF_COMMANDS:
            if getattr(self, key):
                yield key, f"It has no effect for a server with {way}."

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The server's secrets, to be redacted; short variables do not count."""
        variables = (each for each in self.environment.values() if len(each.reveal()) >= _SECRET)
        password = urlsplit(self.url).password if self.url else None
        return (*variables, *self.headers.values(), *((Secret(password),) if password else ()))

    def is_same(self, other: McpServer) -> bool:
        """Tell whether another has the same settings, secrets included."""
        own, others = (
            attrs.asdict(each, recurse=False)
            | {key: _reveal(getattr(each, key)) for key in _SECRETS}
            for each in (self, other)
        )
        return own == others

    def offers(self, tool: str) -> bool:
        """Return whether a tool is offered to the model."""
        return _matches(tool, self.tools) and not _matches(tool, self.hidden_tools)

    def allows(self, tool: str) -> bool:
        """Return whether the user permits a tool's calls without an approval."""
        return _matches(tool, self.allowed)


_SECRETS: Final = ("environment", "headers")
_OF_COMMANDS: Final = ("arguments", "environment", "directory", "log_path")
_OF_ADDRESSES: Final = ("headers", "oauth")


def _reveal(given: Mapping[str, Secret]) -> dict[str, str]:
    return {name: secret.reveal() for name, secret in given.items()}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    # Not fnmatch: it ignores case on systems whose file names do.
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def access_servers(
    configuration: Configuration, sources: Sequence[str] | None = None
) -> tuple[McpServer, ...]:
    """Return the named servers, each once.

    Args:
        sources: Names of servers that are configured, and paths of files that name some;
            ``None`` for all that are configured.

    Raises:
        UnknownNameError: Neither a server nor a file has that name.
        ConfigurationError: The settings of a server are invalid.
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
    """Create a server from its table; paths are relative to the file that defines its transport."""
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
    """Read a file of MCP servers.

    It contains tables ``[mcp.NAME]``, as the configuration does; or the keys of one server, named
    after the file unless it has a name; or JSON with ``mcpServers``, as other programs write it.
    Relative paths start at the file's directory.

    Raises:
        ConfigurationError: With all mistakes in the file.
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
        ConfigurationError: With all mistakes in them.
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
    # A bare name is searched on the path; only a path is relative to the file.
    if server is None or "/" not in server.command:
        return server
    return attrs.evolve(server, command=str(reader.base / Path(server.command).expanduser()))
