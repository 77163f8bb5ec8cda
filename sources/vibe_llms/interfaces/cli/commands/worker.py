"""``vibe worker``: performs runs that others have asked for."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.options import GRACE, command, runner_option, yes_option
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
    help="Queues to take runs from; of each, how many this and any other worker performs at once, "
    "and how many all of them together.",
)
@click.option(
    "--functions",
    default="",
    metavar="MODULE:NAME,...",
    help="Functions that batches may ask for by their names, imported from modules.",
)
@click.option(
    "--grace",
    default=10.0,
    show_default=True,
    type=GRACE,
    metavar="SECONDS",
    help="How long runs may work on when it is told to leave.",
)
@yes_option
def worker(runner: str, queues: str, functions: str, grace: float, yes: bool) -> None:
    """Perform runs and batches that wait in the queues of a runner, until Ctrl-C.

    Any number of workers share them, on any machine with PostgreSQL. What a worker had begun that
    is killed, or cannot be reached, the others go on with after 15 seconds. One that is told to
    leave, by Ctrl-C or SIGTERM, takes no more and hands back what it has not ended.

    
        vibe worker --runner postgresql://… --queues runs=16,batches=2

    The queue `batches` has the chunks of batches, of which each worker performs two at once. Where
    their work is a function, it is one of those that this worker was started with.

    Runs and conversations are in the configured store; with PostgreSQL, unless another is
    configured, in the same database.
    """
    from vibe_llms.agents.queues import read_queues
    from vibe_llms.batches.functions import load_functions
    from vibe_llms.interfaces.cli.access import load_application, tell_untrusted

    named, lent = read_queues(queues), load_functions(functions)
    application = load_application(yes=yes)
    tell_untrusted(application.configuration)
    asyncio.run(_work(application, runner, named, lent, grace))


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
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    hosting = WorkerSettings(grace_seconds=grace)
    async with open_runner(
        url, application=application, queues=queues, functions=functions, hosting=hosting
    ):
        note(f"Performs what waits in {', '.join(each.name for each in queues)}. Ctrl-C ends it.")
        await told.wait()
        note("Leaves; others go on with what it has not ended.")
        for number in (signal.SIGINT, signal.SIGTERM):  # a second one does not wait
            loop.remove_signal_handler(number)
