"""``vibe worker``: process queued runs and batches."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.options import GRACE, command, download_option, runner_option
from vibe_llms.interfaces.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vibe_llms.agents.queues import Queue
    from vibe_llms.application import Application
    from vibe_llms.batches.functions import Function


@command("worker")
@runner_option
@click.option(
    "--queues",
    "queues",
    default="runs",
    show_default=True,
    metavar="NAME[=EACH[/TOTAL]],...",
    help="Queues, with concurrency of each worker and in total.",
)
@click.option(
    "--functions",
    default="",
    metavar="MODULE:NAME,...",
    help="Functions that batches may call by name.",
)
@click.option(
    "--grace",
    default=10.0,
    show_default=True,
    type=GRACE,
    metavar="SECONDS",
    help="Grace period for runs when stopping.",
)
@download_option
def worker(runner: str, queues: str, functions: str, grace: float, yes: bool) -> None:
    """Process queued runs and batches, until Ctrl-C.

    Start any number of workers; with PostgreSQL, on any machine. If a worker dies, other workers
    take over its runs after 15 seconds. On Ctrl-C or SIGTERM, a worker takes no new work and
    releases unfinished work.

    \b
        vibe worker --runner postgresql://… --queues runs=16,batches=2

    The queue `batches` holds chunks of batches; each worker processes two at once. If a batch calls
    a function, start the worker with --functions.

    Runs and conversations are in the configured store. With PostgreSQL, the default is the same
    database.
    """
    from vibe_llms.agents.queues import read_queues
    from vibe_llms.batches.functions import load_functions
    from vibe_llms.interfaces.cli.access import load_application, warn_untrusted

    parsed_queues, callables = read_queues(queues), load_functions(functions)
    application = load_application(yes=yes)
    warn_untrusted(application.configuration)
    asyncio.run(_work(application, runner, parsed_queues, callables, grace))


async def _work(
    application: Application,
    url: str,
    queues: Sequence[Queue],
    functions: Sequence[Function],
    grace: float,
) -> None:
    from vibe_llms.agents.runners import check_shared, open_runner
    from vibe_llms.agents.workers import WorkerSettings

    check_shared(url)
    is_stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, is_stopped.set)
    settings = WorkerSettings(grace_seconds=grace)
    async with open_runner(
        url, application=application, queues=queues, functions=functions, hosting=settings
    ):
        note(f"Worker for {', '.join(each.name for each in queues)}. Press Ctrl-C to stop.")
        await is_stopped.wait()
        note("Stopped; other workers take over unfinished work.")
        for number in (signal.SIGINT, signal.SIGTERM):  # a second signal ends it immediately
            loop.remove_signal_handler(number)
