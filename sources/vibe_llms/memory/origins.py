"""Origin of a remembered text: the conversation and the turn of a call."""

from __future__ import annotations

from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import StoreError
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.memory.notes import NoteOrigin
from vibe_llms.messages.canisters import InvocationCanister, UserCanister
from vibe_llms.messages.identities import access_now


def find_origin(store: ConversationStore, context: InvocationContext) -> NoteOrigin | None:
    """Return the conversation and the turn of a call; ``None`` outside of a run. Blocks.

    Without the stored call, the turn is unknown.
    """
    if not context.run_id:
        return None
    turn = None
    try:
        canisters = store.read(context.run_id, tolerant=True).canisters
    except StoreError:  # the conversation is not stored, or cannot be read
        canisters = ()
    asked, call = 0, context.invocation_id
    for canister in canisters:
        if isinstance(canister, UserCanister):
            asked += 1
        elif isinstance(canister, InvocationCanister) and canister.invocation_id == call:
            turn = asked
    return NoteOrigin(conversation=context.run_id, turn=turn, time=access_now())
