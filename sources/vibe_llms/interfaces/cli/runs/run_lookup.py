"""Find the run that a command names, read its events, and describe how to resume it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from vibe_llms.interfaces.cli.options import RUN

if TYPE_CHECKING:
    from vibe_llms.agents.interfaces import Runs
    from vibe_llms.agents.local import LocalRuns
    from vibe_llms.agents.remote import RemoteRuns
    from vibe_llms.conversations.run_logs.log import LoggedEvent
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.runs.summaries import RunSummary

_Function = TypeVar("_Function", bound=Callable[..., Any])

run_argument = click.argument("word", metavar="RUN", type=RUN)


def address_option(function: _Function) -> _Function:
    """Add ``--address``, the address of an agents daemon."""
    option = click.option(
        "--address",
        default="",
        metavar="URL",
        callback=_refuse_empty_address,
        help="Agents daemon to use (key: VIBE_AGENTS_KEY).",
    )
    return option(function)


def _refuse_empty_address(context: click.Context, option: click.Parameter, value: str) -> str:
    """Reject an empty address, usually from an unset variable in a script."""
    source = context.get_parameter_source(option.name or "")
    if not value.strip() and source is not ParameterSource.DEFAULT:
        raise click.BadParameter("it is empty. Remove it to use the runs of this machine.")
    return value


@asynccontextmanager
async def open_runs(address: str) -> AsyncIterator[LocalRuns | RemoteRuns]:
    """Open the runs of a daemon; without an address, those of this machine's store.

    Raises:
        ConfigurationError: The address is invalid.
    """
    if address:
        from vibe_llms.agents.remote import connect

        async with connect(address) as remote:
            yield remote
        return
    from vibe_llms.agents.local import LocalRuns
    from vibe_llms.interfaces.cli.access import load_application, open_index, open_store

    store = open_store()
    index = open_index(store)
    yield LocalRuns(store, load_application(), is_owner=True, conversation_index=index)


async def find_run(runs: LocalRuns | RemoteRuns, word: str) -> RunSummary:
    """Find a run by its id or a prefix of it.

    Raises:
        UnknownConversationError: No run matches.
        AmbiguousIdentityError: Several runs match.
        StoreError: The conversation has no run.
    """
    from vibe_llms.agents.local import LocalRuns

    if isinstance(runs, LocalRuns):
        return _find_in_store(runs.store, word)
    with _adding_list_command(word, "--address", runs.connection.address):
        return await _find_remotely(runs, word)


def _find_in_store(store: ConversationStore, word: str) -> RunSummary:
    """Find a run of a store by its id or a prefix of it."""
    from vibe_llms.interfaces.cli.access import resolve_identity
    from vibe_llms.runs.surveying import read_summary

    with _adding_list_command(word):
        return read_summary(store, resolve_identity(store, word))


@contextmanager
def _adding_list_command(word: str, *place: str) -> Iterator[None]:
    """Add the command that lists the runs to an error about an unknown run."""
    from vibe_llms.exceptions import UnknownConversationError
    from vibe_llms.interfaces.cli.program import compose_command

    try:
        yield
    except UnknownConversationError as error:
        error.detail = f"Unknown run {word!r}."
        error.remedy = f"List the runs with: {compose_command('runs', 'list', *place)}"
        raise


async def _find_remotely(runs: Runs, word: str) -> RunSummary:
    """Find a run of a daemon by its id or a prefix of it."""
    from vibe_llms.conversations.stores.identities import is_identity_form
    from vibe_llms.exceptions import AmbiguousIdentityError, UnknownConversationError

    if not is_identity_form(word):  # it becomes part of a URL
        raise UnknownConversationError(identity=word)
    try:
        return await runs.find(word)
    except UnknownConversationError:
        matches = [each for each in await runs.survey() if each.id.startswith(word)]
    if not matches:
        raise UnknownConversationError(identity=word)
    if len(matches) > 1:
        candidates = tuple(each.id for each in matches[:5])
        raise AmbiguousIdentityError(identity=word, candidates=candidates)
    return matches[0]


async def read_logged(runs: Runs, summary: RunSummary) -> list[LoggedEvent]:
    """Return the events of a run up to now."""
    from vibe_llms.conversations.run_logs.log import LoggedEvent

    logged = []
    async with aclosing(runs.watch(summary.id)) as events:
        async for event in events:
            if isinstance(event, LoggedEvent):
                logged.append(event)
                if event.sequence >= summary.sequence:
                    break
    return logged


def open_run(word: str) -> tuple[ConversationStore, RunSummary]:
    """Open the store, and find a run by its id or a prefix of it.

    Raises:
        UnknownConversationError: No run matches.
        AmbiguousIdentityError: Several runs match.
        StoreError: The conversation has no run.
    """
    from vibe_llms.interfaces.cli.access import open_store

    store = open_store()
    return store, _find_in_store(store, word)


def compose_run_command(verb: str, summary: RunSummary, address: str = "") -> str:
    """Compose a command line about a run, for the same place."""
    from vibe_llms.interfaces.cli.program import compose_command

    if verb == "resume" and summary.kind == "flow" and not address:
        return compose_command("flow", "resume", summary.id)
    place = ("--address", address) if address else ()
    return compose_command("runs", verb, summary.id, *place)


def advise_to_resume(summary: RunSummary, address: str = "") -> str:
    """Describe how to resume a run that was answered or is idle."""
    command = compose_run_command("resume", summary, address)
    if (address or summary.spec) and summary.state in ("stopped", "ended"):
        return f"Resume it with: {command}"  # nothing resumes it automatically
    if address:
        return "The daemon continues it."
    if summary.state == "working":
        return "The run receives it between two steps."
    if summary.state == "broken_off" and not summary.spec:
        return f"The run was interrupted: its process is gone. Resume it with: {command}"
    if summary.spec:
        return f"A worker or its process continues it; if none is running: {command}"
    return f"It continues where it was started, or with: {command}"


def export_summary(summary: RunSummary) -> dict[str, Any]:
    """Return the state of a run as plain data."""
    import attrs

    return attrs.asdict(summary, recurse=False)
