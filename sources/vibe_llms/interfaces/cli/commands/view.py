"""``vibe view``."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import click

from vibe_llms.interfaces.cli.access import load_application, open_index
from vibe_llms.interfaces.cli.options import command
from vibe_llms.interfaces.cli.output import note

_HOST = "127.0.0.1"


@command("view")
@click.option(
    "--port", default=0, type=click.IntRange(0, 65535), help="Port (default: any free one)."
)
def view(port: int) -> None:
    """Open runs and conversations of this machine in a browser, until Ctrl-C.

    The page is available only on this machine, and only with the key in the printed address, which
    is new each time. The page cannot start runs. Its approvals, messages and stops reach runs in
    other processes, as those of `vibe runs` do.
    """
    from vibe_llms.daemons.agents.viewing import produce_view
    from vibe_llms.daemons.arrivals import find_hosts
    from vibe_llms.daemons.server import ServerSettings, run
    from vibe_llms.daemons.service import Service

    key = secrets.token_urlsafe(32)
    hosts = find_hosts(_HOST, ()) or ()

    def produce() -> Service:
        application = load_application()
        store = application.store
        index = open_index(store)
        return produce_view(application, store, key=key, hosts=hosts, conversation_index=index)

    def note_urls(urls: Sequence[str]) -> None:
        for url in urls:
            note(f"Open {url}/page/#key={key}. Press Ctrl-C to stop.")

    run(produce, ServerSettings(host=_HOST, port=port), is_guarded=True, on_ready=note_urls)
