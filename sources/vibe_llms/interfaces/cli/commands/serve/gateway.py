"""``vibe serve gateway``."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.exceptions import ConverseError
from vibe_llms.interfaces.cli.access import load_application, load_configuration, warn_untrusted
from vibe_llms.interfaces.cli.options import MODEL, command, refuse_empty
from vibe_llms.interfaces.cli.output import note
from vibe_llms.interfaces.cli.serving import daemon_options, produce_guards, serve

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.daemons.service import Service


@command("gateway")
@click.option(
    "-m",
    "--model",
    type=MODEL,
    callback=refuse_empty,
    help="Model for requests that name none.",
)
@click.option(
    "--log-contents",
    "contents",
    is_flag=True,
    help="Also log prompts and answers (may be private).",
)
@daemon_options(8000, config="Settings file: models, fallbacks, limits.")
def gateway(
    model: str | None,
    file: Path | None,
    authorizer: str | None,
    log: bool,
    contents: bool,
    yes: bool,
    **options: Any,
) -> None:
    """Serve all configured models to clients of any protocol, until Ctrl-C.

    Clients of OpenAI (Chat Completions, Responses), Anthropic, Gemini and Ollama can use all
    configured models, by the names that `vibe ask --model` accepts. Another vibe-llms can use
    them, too, with its provider `remote`. Retries, routing and caching are off unless --config
    sets them.

    Options on the command line take precedence over the file. SIGHUP reloads the file and the
    certificates.
    """
    import tempfile

    from vibe_llms.daemons.arrivals import find_hosts
    from vibe_llms.daemons.gateway.settings import GatewaySettings, read_settings
    from vibe_llms.daemons.gateway.tables import find_provider
    from vibe_llms.daemons.server import override

    # All of this happens before the server listens, to report mistakes first.
    application = _load(model, yes=yes)
    resolve = functools.partial(find_provider, application)
    file_settings = GatewaySettings() if file is None else read_settings(file, resolve)
    if model is not None:
        if file_settings.models:
            raise click.UsageError(
                f"Remove --model: it is for requests without a model, and {file} lists "
                "models, so each request must name one."
            )
        resolve(model)
    addresses = [target.model for each in file_settings.models.values() for target in each.targets]
    if not addresses and model is not None:
        addresses = [model]
    if application.configuration.yes:
        _download(application, addresses)
    _report_missing(application, {resolve(address) for address in addresses})
    server_settings = override(file_settings.server, options)
    contents = contents or file_settings.log_contents
    authorizer = authorizer or file_settings.authorizer
    hosts = find_hosts(server_settings.host, file_settings.hosts)
    produce = functools.partial(
        _produce,
        model,
        yes,
        authorizer,
        log or contents,
        file=file,
        needs_models=bool(file_settings.models),  # also for a worker that is restarted later
        keeps_contents=contents,
        hosts=hosts,
        has_page=file_settings.page,
    )
    if file_settings.page and not authorizer:
        raise click.UsageError(
            f"page = true in {file} needs an operator's key: add --authorizer keys, and create a "
            "key with `vibe keys add NAME --operator`."
        )
    # To report further mistakes; without the authorizer, whose connections belong to a worker.
    _produce(model, yes, None, False, file=file)
    warn_untrusted(load_configuration())
    with contextlib.ExitStack() as stack:
        if file_settings.page and server_settings.workers > 1:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="vibe-workers-"))
            produce = functools.partial(produce, workers_folder=Path(folder))
        serve(
            produce,
            server_settings,
            is_guarded=bool(authorizer),
            on_ready=functools.partial(_note_urls, has_page=file_settings.page),
            on_reload=_reload,
        )


def _produce(
    model: str | None, yes: bool, authorizer: str | None, log: bool, **options: Any
) -> Service:
    from vibe_llms.daemons.gateway.making import produce_service

    application = _load(model, yes=yes)
    guards = produce_guards(application, authorizer, log=log)
    return produce_service(application, **options, **guards)


def _load(model: str | None, *, yes: bool) -> Application:
    # Retries are configured only in the gateway's tables.
    return load_application(yes=yes, model=model, limits={"attempts": 1})


def _download(application: Application, addresses: Collection[str]) -> None:
    """Download missing files of these models now, because requests download nothing later."""
    import asyncio

    async def access_all() -> None:
        for address in addresses:
            # Errors are reported by `_report_missing`, or at a request.
            with contextlib.suppress(ConverseError):
                await application.access_model(address)
        await application.close()

    asyncio.run(access_all())


def _report_missing(application: Application, providers: Collection[str]) -> None:
    """Report providers that lack something, such as a key; the others can be used."""
    from vibe_llms.plugins.missing_requirements import refuse_missing

    for name in sorted(providers):
        try:
            refuse_missing(application.plugins, name)
        except ConverseError as error:
            note(f"Cannot use {name} yet: {error}")


def _reload(service: Any) -> None:
    service.reload()


def _note_urls(urls: Sequence[str], *, has_page: bool) -> None:
    for url in urls:
        page = f"; page: {url}/page/" if has_page else ""
        note(f"Gateway on {url} (OpenAI clients: {url}/v1{page}). Press Ctrl-C to stop.")
