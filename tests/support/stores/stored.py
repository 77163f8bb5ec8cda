"""Stores with random data, and a comparable description of their data."""

from __future__ import annotations

import random
from typing import Any

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.engine import RunEndedEvent, RunStartedEvent
from vibe_llms.events.runs import MessageReceivedEvent
from vibe_llms.exceptions import StoreError
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.contents import ImageContent

ENDED = RunEndedEvent(run_id="run", reason="answered")


def describe(store: ConversationStore) -> dict[str, Any]:
    """Return the data of a store, except the fork points."""
    found: dict[str, Any] = {}
    for identity in store.survey():
        history = store.read(identity)
        about = history.metadata
        found[identity] = (
            (about.name, about.tags, about.model, about.created),
            history.canisters,
            tuple(store.open_log(identity).read()),
            tuple(store.open_inbox(identity).read()),
        )
    contents = {each: store.contents.read(each) for each in store.contents.survey()}
    return {"conversations": found, "contents": contents}


def add_run(store: ConversationStore, identity: str, text: str) -> None:
    """Add a finished run to a conversation, with an image in its question."""
    picture = ImageContent(mime_type="image/png", data=text.encode(), name=f"{text}.png")
    store.append(identity, [UserCanister([picture]), AssistantCanister(text)])
    log = store.open_log(identity)
    log.claim()
    log.append(text, RunStartedEvent(run_id=text, conversation_id=identity, model="m", length=1))
    log.append(text, ENDED)
    log.close()


def change_at_random(store: ConversationStore, seed: int, steps: int = 8) -> None:
    """Perform random operations on a store."""
    chance = random.Random(seed)
    for number in range(steps):
        known = sorted(store.survey())
        identity = chance.choice(known) if known else ""
        operation = chance.choice(("begin", "say", "fork", "write", "name", "delete", "add"))
        if operation == "begin" or not known:
            store.create(f"c{seed}-{number}", ConversationMetadata(name=f"n {seed}", tags=("t",)))
        elif operation == "say":
            add_run(store, identity, f"{seed} {number}")
        elif operation == "fork":
            whole = len(store.read(identity).canisters)
            index = chance.choice((None, chance.randint(0, whole)))
            store.fork(identity, from_index=index, child=f"f{seed}-{number}")
        elif operation == "write":
            message = MessageReceivedEvent(
                canister=UserCanister("w"), message_id=f"{seed}-{number}"
            )
            store.open_inbox(identity).put(message)
        elif operation == "name":
            store.update_metadata(identity, name=f"named {number}", model="m:x")
        elif operation == "delete":
            store.delete(identity)
        else:
            store.contents.add(f"{seed}.{number}".encode(), mime_type="text/plain")


def is_whole(store: ConversationStore, source: dict[str, Any]) -> bool:
    """Return whether each conversation of a store is equal to that of the source."""
    try:
        found = describe(store)["conversations"]
    except StoreError:
        return False
    return all(source["conversations"].get(each) == value for each, value in found.items())
