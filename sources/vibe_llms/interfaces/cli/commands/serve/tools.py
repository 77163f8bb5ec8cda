"""``vibe serve tools``."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from vibe_llms.interfaces.cli.access import load_application, load_configuration, warn_untrusted
from vibe_llms.interfaces.cli.options import (
    APPROVER,
    ENSEMBLES,
    INVOCABLES,
    SERVER,
    command,
    refuse_empty,
)
from vibe_llms.interfaces.cli.output import note
from vibe_llms.interfaces.cli.serving import daemon_options, produce_guards, serve
from vibe_llms.interfaces.cli.tooling import split_names

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.daemons.service import Service
    from vibe_llms.daemons.tools.settings import ToolsSettings


@command("tools")
@click.option(
    "--tools",
    "-t",
    "ensembles",
    multiple=True,
    type=ENSEMBLES,
    callback=refuse_empty,
    metavar="NAME,...",
    help="Ensembles to serve, such as io,shell. [default: all]",
)
@click.option(
    "--mcp",
    "mcp",
    multiple=True,
    type=SERVER,
    callback=refuse_empty,
    metavar="FILE|NAME",
    help="MCP servers to serve: a file, or a name. [default: all]",
)
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    type=INVOCABLES,
    callback=refuse_empty,
    metavar="NAME,...",
    help="Tools to run without approval; `all` for every one.",
)
@click.option(
    "--approver",
    type=APPROVER,
    callback=refuse_empty,
    metavar="NAME",
    help="A plugin's approver, asked before the client's user.",
)
@click.option("--stdio", is_flag=True, help="Serve the parent process over pipes.")
@daemon_options(8020, config="Settings file of the server.")
def tools(stdio: bool, file: Path | None, log: bool, yes: bool, **options: Any) -> None:
    """Serve your tools to other programs as an MCP server, until Ctrl-C.

    The server listens for HTTP at /mcp. With --stdio it uses pipes, for programs that have this
    command in their MCP settings. The client's user is asked to approve calls, if the client
    supports this; otherwise calls that need approval are denied.

    The configured providers and their keys are not loaded. Options on the command line take
    precedence over the file.
    """
    from vibe_llms.daemons.tools.settings import ToolsSettings
    from vibe_llms.tables.documents import read_file

    if stdio:
        _refuse_network({**options, "log": log})
    settings = _override(
        ToolsSettings() if file is None else read_file(ToolsSettings, file), options
    )
    configuration = load_configuration()
    if stdio:
        _serve_stdio(settings, yes=yes)
        return
    warn_untrusted(configuration)
    produce = functools.partial(_produce, settings, secrets.token_bytes(32), log, yes)
    serve(produce, settings.server, is_guarded=bool(settings.authorizer), on_ready=_note_urls)


def _refuse_network(options: dict[str, Any]) -> None:
    """Reject options for serving over HTTP. Raises UsageError."""
    permitted = ("ensembles", "mcp", "allowed", "approver")
    refused = [name for name, value in options.items() if value and name not in permitted]
    if refused or options["port"] is not None:  # port 0 is a value, too
        name = refused[0] if refused else "port"
        raise click.UsageError(
            f"--{name.replace('_', '-')} is for HTTP, but --stdio uses pipes: remove one of them."
        )


def _override(settings: ToolsSettings, options: dict[str, Any]) -> ToolsSettings:
    """Return the settings, overridden by the command line's options."""
    from vibe_llms.daemons.server import override

    own_options = {
        "ensembles": split_names(options.pop("ensembles")),
        "mcp": options.pop("mcp"),
        "allowed": split_names(options.pop("allowed")),
        "approver": options.pop("approver"),
        "authorizer": options.pop("authorizer"),
    }
    ensembles, servers = own_options["ensembles"], own_options["mcp"]
    if ensembles or servers:  # an explicit selection excludes all others
        settings = attrs.evolve(settings, ensembles=ensembles, mcp=servers)
    changes = {name: value for name, value in own_options.items() if value}
    # The remaining options are those of the server.
    return attrs.evolve(settings, server=override(settings.server, options), **changes)


def _serve_stdio(settings: ToolsSettings, *, yes: bool) -> None:
    import asyncio

    from vibe_llms.daemons.tools.making import serve_stdio

    asyncio.run(serve_stdio(_load(yes=yes), settings))


def _load(*, yes: bool) -> Application:
    from vibe_llms.daemons.tools.refusing import leave_out_providers

    return load_application(yes=yes, change=leave_out_providers)


def _produce(settings: ToolsSettings, secret: bytes, log: bool, yes: bool) -> Service:
    from vibe_llms.daemons.tools.making import produce_service

    application = _load(yes=yes)
    guards = produce_guards(application, settings.authorizer, log=log)
    return produce_service(application, settings, secret=secret, **guards)


def _note_urls(urls: Sequence[str]) -> None:
    for url in urls:
        note(f"Tools on {url}/mcp. Press Ctrl-C to stop.")
