"""Execute a flow's run for a command, show its progress, and report the result."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from vibe_llms.events.flow import FlowEvent, VisitEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.flows.adapter import UniversalAdapter
from vibe_llms.flows.results import AdapterResult
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.interfaces.cli.access import load_application, warn_untrusted
from vibe_llms.interfaces.cli.chat.tail import is_drawable
from vibe_llms.interfaces.cli.errors import ExitCode, classify_error
from vibe_llms.interfaces.cli.flows.line_view import LineView
from vibe_llms.interfaces.cli.flows.options import BOUNDS
from vibe_llms.interfaces.cli.flows.picture import PictureView
from vibe_llms.interfaces.cli.interrupts import run
from vibe_llms.interfaces.cli.output import mark_error, note, sanitize, write, write_json
from vibe_llms.interfaces.cli.program import compose_command

if TYPE_CHECKING:
    from vibe_llms.application import Application

View: TypeAlias = LineView | PictureView
Perform = Callable[[UniversalAdapter], Awaitable[AdapterResult]]


def perform(
    options: Mapping[str, Any],
    work: Perform,
    *,
    strict: bool = True,
    application: Application | None = None,
) -> int:
    """Execute a run and show it; only the final response goes to standard output.

    Args:
        options: The options that ``run_options`` adds to a command.
        work: Executes the run with an adapter.
        strict: Whether harmless mistakes in a task are errors.
        application: The application if it is already loaded.

    Returns:
        The exit code.

    Raises:
        ConverseError: The run did not start.
        KeyboardInterrupt: Ctrl-C was pressed; the command that resumes the run was printed.
    """
    config = AdapterConfig(
        strict_validation=strict,
        model=options["model"],
        **{name: options[name] for name in BOUNDS if options[name] is not None},
    )
    if application is None:
        application = load_flow_application(options)
    view = PictureView() if is_drawable(sys.stderr) else LineView()
    try:
        result = run(_perform(application, config, options, view, work))
    except KeyboardInterrupt:
        if view.run_id:
            note(f"Stopped. {_advise_to_resume(view.run_id)}")
        raise
    return _report_end(result, as_json=options["as_json"])


def load_flow_application(options: Mapping[str, Any]) -> Application:
    """Build the application for a command that runs a flow."""
    application = load_application(yes=options["yes"], approver=options["approver"])
    warn_untrusted(application.configuration)
    return application


async def _perform(
    application: Application,
    config: AdapterConfig,
    options: Mapping[str, Any],
    view: View,
    work: Perform,
) -> AdapterResult:
    from vibe_llms.interfaces.cli.approving import TerminalApprover
    from vibe_llms.interfaces.cli.tooling import produce_ensembles, split_names

    policy = await application.produce_approver()
    approver = TerminalApprover(
        split_names(options["allowed"]), view, policy=policy, is_stored=True
    )
    named = split_names(options["tools"])
    try:
        tools = await produce_ensembles(application, named, named)
        if options["servers"]:
            tools += await application.produce_mcp_ensembles(options["servers"], approver=approver)
        async with _follow(application, options["html"]) as feed:

            def listen(event: FlowEvent | VisitEvent) -> None:
                view.feed(event)
                feed(event)

            adapter = UniversalAdapter(
                config,
                tools=tools,
                application=application,
                store=application.store,
                approver=approver,
                listener=listen,
            )
            return await work(adapter)
    finally:
        view.close()
        await application.close()


@asynccontextmanager
async def _follow(
    application: Application, html: str | None
) -> AsyncIterator[Callable[[object], object]]:
    """Provide the listener that updates the run's HTML page during the run, if requested."""
    if html is None:
        yield lambda event: None
        return
    from vibe_llms.exceptions import StoreError
    from vibe_llms.flows.live_pages import LivePage
    from vibe_llms.interfaces.cli.exchanging import save_document

    path, has_failed = Path(html), False

    def save(page: str) -> None:
        nonlocal has_failed
        try:
            save_document(page, path)
        except StoreError as error:  # reported once; the run, which costs money, continues
            if not has_failed:
                has_failed = True
                note(str(error))

    note(f"Follow the run in a browser: {path.absolute().as_uri()}")
    async with LivePage(application.store, save) as page:
        yield page.feed


def _report_end(result: AdapterResult, *, as_json: bool) -> int:
    for warning in result.warnings:
        note(f"Warning: {warning}")
    if result.reason == "refused" and result.error is not None:
        raise result.error
    if as_json:
        write_json(export_result(result))
    elif result.success:
        write(result.final_response)
    sys.stdout.flush()  # before messages about it
    if not result.success:
        if not as_json:
            for error in result.errors:
                _write_error(error)
        if result.reason == "waiting":
            from vibe_llms.interfaces.cli.approving import advise_to_answer

            note(advise_to_answer(result.run_id, "flow", "resume", result.run_id))
        else:
            note(_advise_to_resume(result.run_id))
        return _choose_code(result)
    _report_goal(result)
    return ExitCode.SUCCESS if result.goal_met else ExitCode.INCOMPLETE


def _report_goal(result: AdapterResult) -> None:
    for verdict in result.verification:
        if not verdict.is_met:
            note(f"Goal not met: {verdict.description}: {verdict.evidence}")
    show_command = compose_command("flow", "show", result.run_id)
    note(f"Kept as {result.run_id}; show it with: {show_command}")


def _choose_code(result: AdapterResult) -> ExitCode:
    match result.reason:
        case "limit":
            return ExitCode.LIMIT
        case "waiting":
            return ExitCode.CONSENT
        case "cancelled":
            return ExitCode.INTERRUPTED
        case _:
            error = result.error
            # The base class: a failed tool, or a decision without a match or a model.
            if error is None or type(error) is ConverseError:
                return ExitCode.INCOMPLETE
            return classify_error(error)


def _write_error(text: str) -> None:
    sys.stderr.write(f"{mark_error()} {sanitize(' '.join(text.split()))}\n")


def _advise_to_resume(run_id: str) -> str:
    return f"Resume with: {compose_command('flow', 'resume', run_id)}"


def export_result(result: AdapterResult) -> dict[str, Any]:
    """Return a result as plain data."""
    exported = attrs.asdict(result, recurse=False)
    del exported["error"]
    exported["usage"] = None if result.usage is None else attrs.asdict(result.usage)
    exported["verification"] = [attrs.asdict(each) for each in result.verification]
    return exported
