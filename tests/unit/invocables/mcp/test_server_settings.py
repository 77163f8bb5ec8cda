"""What a user says about MCP servers: a file, tables, secrets, and every mistake at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.invocables.mcp import McpServer
from vibe_llms.invocables.mcp.settings import produce_servers, read_servers


def write(path: Path, text: str) -> Path:
    """Writes a file of servers."""
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_of_one_server_gives_it_its_name(tmp_path: Path) -> None:
    """The keys may stand alone; the name is the file's, and paths are meant from where it lies."""
    file = write(
        tmp_path / "files.toml", 'command = "serve"\narguments = ["."]\ndirectory = "work"\n'
    )

    (server,) = read_servers(file)

    assert (server.name, server.arguments) == ("files", (".",))
    assert server.directory == tmp_path / "work"


def test_a_program_is_meant_from_where_the_file_lies(tmp_path: Path) -> None:
    """If it is a path; a mere name is looked for on the path of programs."""
    one, two = read_servers(
        write(tmp_path / "a.toml", '[mcp.one]\ncommand = "./serve"\n[mcp.two]\ncommand = "serve"\n')
    )

    assert one.command == str(tmp_path / "serve")
    assert two.command == "serve"


def test_a_file_of_tables_names_several_servers(tmp_path: Path) -> None:
    """Tables are written as in the configuration."""
    text = '[mcp.one]\ncommand = "serve"\n\n[mcp.two]\nurl = "https://example.org/mcp"\n'

    one, two = read_servers(write(tmp_path / "servers.toml", text))

    assert (one.name, one.command) == ("one", "serve")
    assert (two.name, two.url) == ("two", "https://example.org/mcp")


def test_secrets_stand_elsewhere_and_do_not_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable or a file holds them; what prints a server does not print them."""
    monkeypatch.setenv("TOKEN_OF_TEST", "hush-1")
    write(tmp_path / "token", "hush-2\n")
    text = (
        'url = "https://example.org/mcp"\n[headers]\n'
        'Authorization = {variable = "TOKEN_OF_TEST", prefix = "Bearer "}\n'
        'X-Other = {file = "token"}\nX-Plain = "hush-3"\n'
    )

    (server,) = read_servers(write(tmp_path / "one.toml", text))

    assert [each.reveal() for each in server.headers.values()] == [
        "Bearer hush-1",
        "hush-2",
        "hush-3",
    ]
    assert "hush" not in repr(server)


@pytest.mark.parametrize(
    ("table", "place", "words"),
    [
        ({}, "mcp.it", "a command to start the server, or the url"),
        ({"command": "a", "url": "http://b"}, "mcp.it", "either a command"),
        ({"url": "ftp://b"}, "mcp.it.url", "https://example.org"),
        ({"command": "a", "headers": {"b": "c"}}, "mcp.it.headers", "no effect for a server"),
        ({"command": "a", "protocol": "1999"}, "mcp.it.protocol", "2026-07-28"),
        ({"command": "a", "comand": "b"}, "mcp.it.comand", "did you mean 'command'?"),
        ({"command": 3}, "mcp.it.command", "a text"),
        ({"command": "a", "arguments": "b"}, "mcp.it.arguments", "a list of texts"),
        ({"command": "a", "lazy": 1}, "mcp.it.lazy", "true or false"),
        ({"command": "a", "call_seconds": 0}, "mcp.it.call_seconds", "above 0"),
        ({"command": "a", "restarts": True}, "mcp.it.restarts", "a whole number"),
        ({"command": "a", "environment": {"B": 1}}, "mcp.it.environment.B", "or where to find it"),
        ({"command": "a", "environment": {"B": {"variable": "NOT_SET_AT_ALL"}}}, "", "is not set"),
        ({"command": "a", "environment": {"B": {"file": "/no/such"}}}, "", "cannot be read"),
        ("command", "mcp.it", "a table"),
    ],
)
def test_mistakes_are_named_with_their_place(table: Any, place: str, words: str) -> None:
    """Each says where it is and what would be right."""
    with pytest.raises(ConfigurationError) as caught:
        produce_servers({"it": table})

    (finding,) = caught.value.findings
    assert words in finding.message
    assert finding.place.startswith(place)


def test_all_mistakes_of_all_servers_are_told_at_once() -> None:
    """Nobody mends one only to meet the next."""
    with pytest.raises(ConfigurationError) as caught:
        produce_servers({"one": {"command": 1, "lazy": 2}, "two": {}})

    assert len(caught.value.findings) == 3


def test_a_file_that_is_no_toml_is_told(tmp_path: Path) -> None:
    """So is one that is not there."""
    with pytest.raises(ConfigurationError, match="Invalid TOML"):
        read_servers(write(tmp_path / "a.toml", "command = "))
    with pytest.raises(ConfigurationError, match="Cannot read the file"):
        read_servers(tmp_path / "b.toml")


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
_KEYS = st.sampled_from(["command", "url", "headers", "tools", "lazy", "environment", "oauth"])


@given(st.dictionaries(_KEYS | st.text(max_size=5), _PLAIN, max_size=5))
def test_whatever_is_written_is_a_server_or_a_mistake(table: dict[str, Any]) -> None:
    """Nothing that TOML can say is met with another error."""
    try:
        (server,) = produce_servers({"it": table})
    except ConfigurationError:
        return
    assert bool(server.command) != bool(server.url)


def test_what_is_offered_and_allowed_goes_by_patterns() -> None:
    """Hidden wins over shown; what is allowed needs no approval."""
    server = McpServer(
        name="it", command="a", tools=("read_*", "write"), hidden_tools=("*_all",), allowed="read_*"
    )

    assert server.offers("read_one")
    assert not server.offers("read_all")
    assert not server.offers("other")
    assert server.allows("read_one")
    assert not server.allows("write")


FOREIGN = {
    "mcpServers": {
        "files": {
            "command": "npx",
            "args": ["-y", "server-filesystem", "${FOLDER_OF_TEST}"],
            "env": {"TOKEN": "${TOKEN_OF_TEST}", "MODE": "${env:NO_SUCH_OF_TEST:-plain}"},
            "cwd": "work",
            "timeout": 60,
            "alwaysAllow": ["read_*"],
        },
        "remote": {
            "type": "http",
            "url": "https://example.org/mcp",
            "headers": {"Authorization": "Bearer ${TOKEN_OF_TEST}"},
        },
        "off": {"command": "nothing", "disabled": True},
    }
}


@pytest.mark.parametrize("table", ["mcpServers", "servers"])
def test_a_file_of_other_programs_is_read(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Claude Desktop, Cursor, Cline and others have it; what is theirs alone is passed over."""
    monkeypatch.setenv("FOLDER_OF_TEST", "/data")
    monkeypatch.setenv("TOKEN_OF_TEST", "hush-hush")
    text = json.dumps({table: FOREIGN["mcpServers"], "inputs": []})

    files, remote = read_servers(write(tmp_path / "mcp.json", text))

    assert (files.name, files.command) == ("files", "npx")
    assert files.arguments == ("-y", "server-filesystem", "/data")
    assert files.directory == tmp_path / "work"
    assert {name: each.reveal() for name, each in files.environment.items()} == {
        "TOKEN": "hush-hush",
        "MODE": "plain",
    }
    assert files.allows("read_file")
    assert (remote.name, remote.url) == ("remote", "https://example.org/mcp")
    assert remote.headers["Authorization"].reveal() == "Bearer hush-hush"
    assert "MCP server files: timeout is ignored." in caplog.text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Invalid JSON"),
        ("[]", '"mcpServers" is missing'),
        ('{"mcpServers": []}', "It must be a table"),
        ('{"mcpServers": {"a": 5}}', "Set a command or a url"),
        ('{"mcpServers": {"a": {}}}', "Set either a command"),
        ('{"mcpServers": {"a": {"url": "https://a.b", "type": "sse"}}}', "Use stdio or streamable"),
        ('{"mcpServers": {"a": {"command": "x", "args": "${NO_SUCH_OF_TEST}"}}}', "is not set"),
        ('{"mcpServers": {"a": {"command": 5}}}', "mcpServers.a.command"),
    ],
)
def test_a_bad_file_of_other_programs_is_told_with_its_place(
    text: str, words: str, tmp_path: Path
) -> None:
    """As of our own; nothing is started."""
    with pytest.raises(ConfigurationError) as caught:
        read_servers(write(tmp_path / "mcp.json", text))

    assert words in str(caught.value)
    assert str(tmp_path / "mcp.json") in str(caught.value)
