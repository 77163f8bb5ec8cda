"""MCP servers that the configuration names, and what a project may not say of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from vibe_llms.application import Application
from vibe_llms.configuration.classes import Configuration
from vibe_llms.configuration.redaction import redact_setting
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import UnknownNameError
from vibe_llms.invocables.mcp.settings import access_servers


def load(user: Path, text: str, project: Path | None = None) -> Configuration:
    """Loads a user's file, seen from a project's folder."""
    file = user / "config.toml"
    file.write_text(text, encoding="utf-8")
    environment = {"VIBE_LLMS_CONFIG": str(file), "HOME": str(user)}
    return load_configuration(environment=environment, working_directory=project or user)


TEXT = """
[mcp.files]
command = "serve"
arguments = ["--token", "hush"]
directory = "work"

[mcp.files.environment]
KEY = "hush"

[mcp.far]
url = "https://me:hush@example.org/mcp"
"""


def test_servers_of_the_configuration_are_meant_from_its_file(tmp_path: Path) -> None:
    """Paths are meant from the file; what a program says goes into the cache's directory."""
    configuration = load(tmp_path, TEXT)

    files, far = access_servers(configuration)

    assert files.directory == tmp_path / "work"
    assert files.log_path == configuration.cache_directory / "mcp" / "files.log"
    assert far.url == "https://me:hush@example.org/mcp"
    assert far.log_path is None


def test_servers_are_named_or_come_from_files(tmp_path: Path) -> None:
    """The order is that of the asking, and each comes once."""
    file = tmp_path / "more.toml"
    file.write_text('command = "more"\n', encoding="utf-8")

    found = access_servers(load(tmp_path, TEXT), ("far", str(file), "far"))

    assert [server.name for server in found] == ["far", "more"]


def test_an_unknown_server_is_told_with_the_nearest(tmp_path: Path) -> None:
    """A slip of the finger is met with the right word."""
    with pytest.raises(UnknownNameError, match="files"):
        access_servers(load(tmp_path, TEXT), ("filse",))


def test_an_application_makes_ensembles_of_them(tmp_path: Path) -> None:
    """None of them is connected; without any there are none."""
    ensembles = asyncio.run(Application(load(tmp_path, TEXT)).produce_mcp_ensembles())

    assert [each.name for each in ensembles] == ["files", "far"]
    assert asyncio.run(Application(load(tmp_path, "")).produce_mcp_ensembles()) == ()


def test_a_folder_that_is_not_trusted_names_no_server(tmp_path: Path) -> None:
    """Neither a server of its own nor another program for one of the user's."""
    project = tmp_path / "project"
    (project / ".vibe-llms").mkdir(parents=True)
    (project / ".vibe-llms" / "config.toml").write_text(
        '[mcp.evil]\ncommand = "evil"\n[mcp.files]\ncommand = "evil"\nallowed = ["*"]\n',
        encoding="utf-8",
    )

    configuration = load(tmp_path, TEXT, project)

    files, far = access_servers(configuration)
    assert (files.name, files.command, files.allowed) == ("files", "serve", ())
    assert far.name == "far"
    request = configuration.trust_request
    assert request is not None
    assert {each.name for each in request.settings} == {
        "mcp.evil.command",
        "mcp.files.command",
        "mcp.files.allowed",
    }


def test_what_may_be_secret_of_a_server_is_not_shown(tmp_path: Path) -> None:
    """Arguments, variables and the user of an address are hidden; the program is not."""
    settings = load(tmp_path, TEXT).settings.values()

    shown = repr([redact_setting(each) for each in settings if each.path[0] == "mcp"])

    assert "hush" not in shown
    assert "serve" in shown
    assert "example.org/mcp" in shown
