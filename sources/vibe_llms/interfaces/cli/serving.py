"""Shared code of the ``vibe serve`` commands: their options, and the start of a daemon."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.options import refuse_empty

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.daemons.server.launching import Produce
    from vibe_llms.daemons.server.settings import ServerSettings

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def daemon_options(port: int, *, config: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of every daemon: its file, authorization, log, and where it listens.

    Args:
        port: The default port in the daemon's settings, whose import would slow down the help.
        config: The help text of the option ``--config``.
    """
    options = (
        click.option("--config", "file", type=_FILE, help=config),
        click.option(
            "--authorizer",
            metavar="NAME",
            callback=refuse_empty,
            help="Authentication: keys (`vibe keys`), or a plugin's.",
        ),
        click.option("--log", is_flag=True, help="Log each request as a line of JSON to stderr."),
        click.option("--host", help="Host name or address. [default: 127.0.0.1]"),
        click.option("--port", type=int, help=f"Port; 0 for any free one. [default: {port}]"),
        click.option("--workers", type=int, help="Number of processes. [default: 1]"),
        click.option("--certificate", type=_FILE, help="TLS certificate with its chain (PEM)."),
        click.option("--key", type=_FILE, help="TLS key, if it is in another file."),
        click.option(
            "--client-authorities",
            type=_FILE,
            help="Authorities for required client certificates (PEM).",
        ),
        click.option(
            "--insecure",
            is_flag=True,
            default=None,
            help="Allow other machines without TLS or authentication.",
        ),
        click.option(
            "--yes",
            "-y",
            is_flag=True,
            help="Allow downloads and installs at the start.",
        ),
    )

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        return functools.reduce(
            lambda wrapped, option: option(wrapped), reversed(options), function
        )

    return add


def produce_guards(
    application: Application, authorizer: str | None, *, log: bool
) -> dict[str, Any]:
    """Return the authorizer of a daemon, and the listeners of its requests."""
    listeners = []
    if log:
        import atexit

        from vibe_llms.daemons.logs import AccessLog

        listeners.append(AccessLog())
        atexit.register(listeners[0].flush)
    loaded = application.plugins.load_authorizer(authorizer) if authorizer else None
    return {"authorizer": loaded, "listeners": listeners}


def serve(produce: Produce, settings: ServerSettings, **options: Any) -> None:
    """Serve until a signal; the metrics of several worker processes are added up.

    Args:
        produce: Creates the service.
        options: Further arguments of :func:`vibe_llms.daemons.server.run`.
    """
    import os
    import tempfile

    from vibe_llms.daemons.metrics import FOLDER_VARIABLE
    from vibe_llms.daemons.server import run

    if settings.workers == 1 or os.environ.get(FOLDER_VARIABLE):
        run(produce, settings, **options)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = folder
        run(produce, settings, **options)
