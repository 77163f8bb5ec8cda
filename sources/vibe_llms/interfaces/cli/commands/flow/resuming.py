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
    """Go on with RUN, which came to rest before its end, with the task as it was when it began.

    Its model and its bounds are those with which it was run, but for what is given here. Nothing
    that was answered is asked again. RUN may be shortened, as long as only one begins so.
    """
    from vibe_llms.interfaces.cli.access import resolve_identity
    from vibe_llms.interfaces.cli.flows.performing import load_flow_application, perform

    application = load_flow_application(options)
    run_id = resolve_identity(application.store, identity)

    async def work(adapter: UniversalAdapter) -> AdapterResult:
        return await adapter.resume(run_id)

    return perform(options, work, application=application)
