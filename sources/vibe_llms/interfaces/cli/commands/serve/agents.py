"""``vibe serve agents``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from vibe_llms.interfaces.cli.access import load_application, open_index, warn_untrusted
from vibe_llms.interfaces.cli.options import command, refuse_empty
from vibe_llms.interfaces.cli.output import note
from vibe_llms.interfaces.cli.serving import daemon_options, produce_guards, serve

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.daemons.agents.settings import AgentsSettings
    from vibe_llms.daemons.service import Service


@command("agents")
@click.option(
    "--gateway",
    metavar="URL",
    callback=refuse_empty,
    help="URL of the gateway for all models.",
)
@click.option(
    "--runner",
    metavar="URL",
    callback=refuse_empty,
    help="Shared queue: sqlite:///FILE or postgresql://… [default: a private one]",
)
@click.option("--memory", is_flag=True, help="Serve notes, too: users may read and change theirs.")
@daemon_options(8010, config="Settings file of the daemon.")
def agents(file: Path | None, log: bool, yes: bool, **options: Any) -> None:
    """Run agents in the background; they continue after the client disconnects.

    Clients start, watch, approve, stop and fork runs over HTTP, at /runs. All requests to models go
    to one gateway, with addresses such as remote:MODEL; tools come from configured MCP servers. The
    daemon does not start if any other provider or ensemble is configured. It resumes interrupted
    runs.

    Options on the command line take precedence over the file.
    """
    from vibe_llms.agents.queues import read_queues
    from vibe_llms.agents.runners import check_url
    from vibe_llms.daemons.agents.refusing import describe_gateway, refuse_foreign
    from vibe_llms.daemons.agents.settings import AgentsSettings
    from vibe_llms.daemons.server import override
    from vibe_llms.tables.documents import read_file

    settings = AgentsSettings() if file is None else read_file(AgentsSettings, file)
    own_options = {
        name: options.pop(name) for name in ("authorizer", "gateway", "memory", "runner")
    }
    changes = {name: value for name, value in own_options.items() if value}
    # The remaining options are those of the server.
    settings = attrs.evolve(settings, server=override(settings.server, options), **changes)
    application = _load(settings, yes=yes)
    configuration = application.configuration
    check_url(settings.runner)
    if settings.queues:
        read_queues(settings.queues)
    refuse_foreign(configuration)  # before the server listens
    warn_untrusted(configuration)
    on_ready = functools.partial(_note_urls, describe_gateway(application.plugins))
    produce = functools.partial(_produce, settings, log, yes)
    serve(produce, settings.server, is_guarded=bool(settings.authorizer), on_ready=on_ready)


def _load(settings: AgentsSettings, *, yes: bool) -> Application:
    if settings.gateway is None:
        return load_application(yes=yes)
    from vibe_llms.daemons.agents.refusing import PROVIDER
    from vibe_llms.exceptions import ConfigurationError
    from vibe_llms.wire.size_limits import describe_address

    if not describe_address(settings.gateway):  # checked now, because every run would fail later
        without_password = settings.gateway.rpartition("@")[2]
        raise ConfigurationError.at(
            "gateway",
            f"Invalid gateway address {without_password!r}. Use a URL such as "
            "http://127.0.0.1:8000.",
        )
    return load_application(yes=yes, providers={PROVIDER: {"base_url": settings.gateway}})


def _produce(settings: AgentsSettings, log: bool, yes: bool) -> Service:
    from vibe_llms.agents.run_specs import RunRules
    from vibe_llms.agents.runners import choose_store
    from vibe_llms.daemons.agents.making import produce_service
    from vibe_llms.daemons.agents.refusing import PROVIDER

    application = _load(settings, yes=yes)
    configuration = application.configuration
    store = choose_store(settings.runner, application)
    return produce_service(
        application,
        store,
        settings,
        rules=RunRules(
            providers=frozenset({PROVIDER}),
            ensembles=frozenset(configuration.servers),
            limits=configuration.limits,
        ),
        produce_tools=application.produce_mcp_ensembles,
        **produce_guards(application, settings.authorizer, log=log),
        conversation_index=open_index(store),
    )


def _note_urls(gateway: str, urls: Sequence[str]) -> None:
    for url in urls:
        note(
            f"Agents daemon on {url} (in a browser: {url}/page/); {gateway}. Press Ctrl-C to stop."
        )
