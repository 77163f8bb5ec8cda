"""``vibe serve gateway``."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.access import load_application, load_configuration, tell_untrusted
from vibe_llms.interfaces.cli.options import MODEL, Command, refuse_empty, yes_option
from vibe_llms.interfaces.cli.output import note

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.daemons.service import Service

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def server_options(port: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds what every daemon takes: where it listens, its TLS, and how many processes it has.

    Args:
        port: Where it listens by default, as its settings say; they are not read for a help text.
    """
    options = (
        click.option("--host", help="A name or an address of this machine. [default: 127.0.0.1]"),
        click.option("--port", type=int, help=f"0 for any that is free. [default: {port}]"),
        click.option("--workers", type=int, help="How many processes answer. [default: 1]"),
        click.option("--certificate", type=_FILE, help="PEM with its chain: speak TLS."),
        click.option("--key", type=_FILE, help="The certificate's key, if in another file."),
        click.option(
            "--client-authorities", type=_FILE, help="PEM: clients need a certificate of these."
        ),
        click.option(
            "--insecure",
            is_flag=True,
            default=None,
            help="Listen wider than this machine without TLS or without asking who comes.",
        ),
    )

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        return functools.reduce(
            lambda wrapped, option: option(wrapped), reversed(options), function
        )

    return add


@click.command("gateway", cls=Command)
@click.option(
    "-m",
    "--model",
    type=MODEL,
    callback=refuse_empty,
    help="The model for requests that name none.",
)
@click.option(
    "--config",
    "file",
    type=_FILE,
    help="A file that says which models there are, and who else is asked where one fails.",
)
@click.option(
    "--authorizer",
    metavar="NAME",
    callback=refuse_empty,
    help="Who says who may ask: keys (see `vibe keys`), or one that a plugin has.",
)
@click.option("--log", is_flag=True, help="Write a line of JSON for each request to stderr.")
@click.option(
    "--log-contents",
    "contents",
    is_flag=True,
    help="Write what was asked and answered into that line, too. People may confide in models.",
)
@server_options(8000)
@yes_option
def gateway(
    model: str | None,
    file: Path | None,
    authorizer: str | None,
    log: bool,
    contents: bool,
    yes: bool,
    **given: Any,
) -> None:
    """Answer clients of any protocol by any model, until Ctrl-C.

    Clients of OpenAI (Chat Completions, Responses), Anthropic, Gemini and Ollama reach all
    configured models, by the names that `vibe ask --model` knows. The provider `remote` of another
    vibe-llms reaches them, too. Nothing is retried, routed or cached but by the file's tables.

    What is given here goes before what the file says. SIGHUP reads the file and the certificates
    again.
    """
    from vibe_llms.daemons.gateway.settings import GatewaySettings, read_settings
    from vibe_llms.daemons.gateway.tables import find_provider
    from vibe_llms.daemons.server import override, run

    # Before anything listens, so that mistakes come first, all at once.
    resolve = functools.partial(find_provider, _load(model, yes=yes))
    read = GatewaySettings() if file is None else read_settings(file, resolve)
    if model is not None:
        if read.models:
            raise click.UsageError(
                f"--model is for requests that name none, and {file} says which models there are, "
                "of which each has to name one: leave --model out."
            )
        resolve(model)
    settings = override(read.server, given)
    contents = contents or read.log_contents
    produce = functools.partial(
        _produce, model, file, authorizer or read.authorizer, log or contents, contents, yes
    )
    _produce(model, file, None, False, False, yes)  # what an authorizer opens is a worker's
    tell_untrusted(load_configuration())
    is_guarded = bool(authorizer or read.authorizer)
    with adding_up(settings.workers):
        run(produce, settings, is_guarded=is_guarded, on_ready=_tell, on_reload=_reload)


@contextlib.contextmanager
def adding_up(workers: int) -> Iterator[None]:
    """Lets the metrics of several worker processes be added up."""
    from vibe_llms.daemons.metrics import FOLDER_VARIABLE

    if workers == 1 or os.environ.get(FOLDER_VARIABLE):
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = folder
        yield


def _produce(
    model: str | None,
    file: Path | None,
    authorizer: str | None,
    log: bool,
    contents: bool,
    yes: bool,
) -> Service:
    from vibe_llms.daemons.gateway.making import produce_service
    from vibe_llms.daemons.logs import AccessLog

    application = _load(model, yes=yes)
    asked = application.plugins.load_authorizer(authorizer) if authorizer else None
    listeners = []
    if log:
        listeners.append(AccessLog())
        atexit.register(listeners[0].flush)
    return produce_service(
        application, authorizer=asked, listeners=listeners, file=file, keeps_contents=contents
    )


def _load(model: str | None, *, yes: bool) -> Application:
    # What no table of the gateway retries is not retried.
    return load_application(yes=yes, model=model, limits={"attempts": 1})


def _reload(service: Any) -> None:
    service.reload()


def _tell(urls: Sequence[str]) -> None:
    for url in urls:
        note(f"The gateway answers at {url} (OpenAI clients: {url}/v1). Ctrl-C ends it.")
