"""``vibe show``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.access import find_identity, open_store
from vibe_llms.interfaces.cli.options import command, json_option, optional_conversation_argument
from vibe_llms.interfaces.cli.output import note, write, write_json, write_moment, write_styled

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.interfaces import ConversationStore, History
    from vibe_llms.telemetry.accounts import Account


@command("show")
@optional_conversation_argument
@click.option("--usage", is_flag=True, help="Show usage: tokens, cost, calls.")
@click.option("--cache", is_flag=True, help="Show the use of prompt caches, turn by turn.")
@click.option("--whole", is_flag=True, help="Include the messages that summaries replaced.")
@json_option
def show(identity: str | None, usage: bool, cache: bool, whole: bool, as_json: bool) -> None:
    """Show the messages of a conversation, its usage, or its use of prompt caches.

    Without ID, show the newest. The first letters of an id are enough if no other id begins with
    them. Damaged parts are omitted and reported. With --whole, a conversation that was compacted
    is shown with the messages of the conversations before it.
    """
    if usage and cache:
        raise click.UsageError("--usage and --cache cannot be combined. Choose one of them.")
    store = open_store()
    history = store.read(find_identity(store, identity), tolerant=True)
    if whole:
        history = _complete(store, history)
    for notice in history.notices:
        note(str(notice))
    if usage:
        _write_usage(store, history, as_json)
        return
    if cache:
        _write_cached_turns(store, history, as_json)
        return
    if as_json:
        import attrs

        from vibe_llms.messages.codec.converter import produce_converter

        unstructure = produce_converter().unstructure
        write_json(
            {
                "id": history.identity,
                "metadata": attrs.asdict(history.metadata),
                "canisters": [unstructure(canister) for canister in history.canisters],
            }
        )
        return
    _write_history(history)
    if not whole and any(getattr(each, "summarizes", None) for each in history.canisters):
        note("A summary replaces earlier messages; `vibe show --whole` shows them, too.")


def _complete(store: ConversationStore, history: History) -> History:
    """Add the messages that summaries in the conversation replace."""
    import attrs

    from vibe_llms.conversations.compaction import read_whole

    canisters, findings = read_whole(store, history)
    notices = (*history.notices, *findings)
    return attrs.evolve(history, canisters=tuple(canisters), notices=notices)


def _write_usage(store: ConversationStore, history: History, as_json: bool) -> None:
    from vibe_llms.interfaces.cli.accounting import compose_document, compose_tables

    account = _measure(store, history)
    if as_json:
        write_json({"id": history.identity, "usage": compose_document(account)})
    else:
        write(compose_tables(account))


def _write_cached_turns(store: ConversationStore, history: History, as_json: bool) -> None:
    from vibe_llms.exceptions import ConverseError
    from vibe_llms.interfaces.cli.cached_turns import compose_document, write_cached_turns
    from vibe_llms.telemetry.cached_turns import survey_cached_turns

    try:
        events = [logged.event for logged in store.open_log(history.identity).read()]
    except ConverseError as error:  # tools and settings are unknown without the log
        note(str(error))
        events = []
    turns = survey_cached_turns(history.canisters, events)
    if as_json:
        write_json({"id": history.identity, **compose_document(turns)})
    else:
        write_cached_turns(turns)


def _measure(store: ConversationStore, history: History) -> Account:
    """Measure a conversation; for a flow, also the conversations of its visits."""
    from vibe_llms.events.flow import NodeStartedEvent
    from vibe_llms.exceptions import ConverseError, UnknownConversationError
    from vibe_llms.telemetry.measuring import add_times, measure_canisters
    from vibe_llms.telemetry.odometer import measure_events

    account = measure_canisters(history.canisters)
    try:
        log = store.open_log(history.identity).read()
    except ConverseError as error:  # the usage in the canisters is complete without the log
        note(str(error))
        return account
    if log:
        event_account = measure_events((logged.timestamp, logged.event) for logged in log)
        account = add_times(account, event_account)
    visits = [each.event for each in log if isinstance(each.event, NodeStartedEvent)]
    for identity in dict.fromkeys(visit.conversation_id for visit in visits):
        with suppress(UnknownConversationError):  # interrupted before the first message
            account += _measure(store, store.read(identity))
    return account


def _write_history(history: History) -> None:
    from vibe_llms.interfaces.cli.chat.output import describe_canister

    name = history.metadata.name
    write_styled(f"{history.identity}  {name}" if name else history.identity, "bold")
    for index, canister in enumerate(history.canisters):
        moment = write_moment(canister.timestamp)
        origin = canister.origin
        model = f" · {origin.provider}:{origin.model} · {origin.stop_reason}" if origin else ""
        write()
        write_styled(f"[{index}] {canister.role} · {moment}{model}", "cyan")
        for kind, text in describe_canister(canister):
            if kind == "text":
                write(text)
            else:
                write_styled(text, "dim")
