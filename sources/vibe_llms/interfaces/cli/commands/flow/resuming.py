"""``vibe flow resume``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vibe_llms.interfaces.cli.flows.options import run_argument, run_options
from vibe_llms.interfaces.cli.options import command

if TYPE_CHECKING:
    from vibe_llms.flows.adapter import UniversalAdapter
    from vibe_llms.flows.results import AdapterResult


@command("resume")
@run_argument
@run_options
def resume(identity: str, **options: Any) -> int:
    """Resume RUN, which stopped before its end, with the task that it was started with.

    The model and limits stay the same unless you change them here. No answered request is sent
    again. The first letters of an id are enough if no other id begins with them.
    """
    from vibe_llms.interfaces.cli.access import resolve_identity
    from vibe_llms.interfaces.cli.flows.flow_runs import load_flow_application, perform

    application = load_flow_application(options)
    run_id = resolve_identity(application.store, identity)

    async def work(adapter: UniversalAdapter) -> AdapterResult:
        return await adapter.resume(run_id)

    return perform(options, work, application=application)
