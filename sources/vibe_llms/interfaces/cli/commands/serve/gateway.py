"""``vibe serve gateway``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.access import load_application, tell_untrusted
from vibe_llms.interfaces.cli.options import MODEL, Command, yes_option
from vibe_llms.interfaces.cli.output import note

if TYPE_CHECKING:
    from vibe_llms.daemons.service import Service

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def server_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what every daemon takes: where it listens, its TLS, and how many processes it has."""
    options = (
        click.option("--host", help="A name or an address of this machine. [default: 127.0.0.1]"),
        click.option("--port", type=int, help="0 for any that is free. [default: 8000]"),
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
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), function)


@click.command("gateway", cls=Command)
@click.option("-m", "--model", type=MODEL, help="The model for requests that name none.")
@server_options
@yes_option
def gateway(model: str | None, yes: bool, **given: Any) -> None:
    """Answer clients of any protocol by any model, until Ctrl-C.

    Clients of OpenAI (Chat Completions, Responses), Anthropic, Gemini and Ollama reach all
    configured models, by the names that `vibe ask --model` knows. The provider `remote` of another
    vibe-llms reaches them, too. Nothing is retried, routed or cached.
    """
    from vibe_llms.daemons.server import ServerSettings, override, run

    settings = override(ServerSettings(), given)
    # Before anything listens, so that the mistakes of the configuration come first.
    tell_untrusted(load_application(yes=yes, model=model).configuration)
    produce = functools.partial(_produce, model, yes)
    run(produce, settings, is_guarded=False, on_ready=_tell)


def _produce(model: str | None, yes: bool) -> Service:
    from vibe_llms.daemons.gateway.making import produce_service

    # What no table of the gateway retries is not retried.
    return produce_service(load_application(yes=yes, model=model, limits={"attempts": 1}))


def _tell(urls: Sequence[str]) -> None:
    for url in urls:
        note(f"The gateway answers at {url} (OpenAI clients: {url}/v1). Ctrl-C ends it.")
