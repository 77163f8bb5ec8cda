"""Stores with something of everything in them, and what is in a store, told in one value."""

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
    """Return all that is in a store, but for where its forks leave their parents."""
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
    """Says something in a conversation, with a picture, as a run does that has then ended."""
    picture = ImageContent(mime_type="image/png", data=text.encode(), name=f"{text}.png")
    store.append(identity, [UserCanister([picture]), AssistantCanister(text)])
    log = store.open_log(identity)
    log.claim()
    log.append(text, RunStartedEvent(run_id=text, conversation_id=identity, model="m", length=1))
    log.append(text, ENDED)
    log.close()


def change_at_random(store: ConversationStore, seed: int, steps: int = 8) -> None:
    """Does one thing after the other that people do with a store, by chance."""
    chance = random.Random(seed)
    for number in range(steps):
        known = sorted(store.survey())
        identity = chance.choice(known) if known else ""
        deed = chance.choice(("begin", "say", "fork", "write", "name", "delete", "add"))
        if deed == "begin" or not known:
            store.create(f"c{seed}-{number}", ConversationMetadata(name=f"n {seed}", tags=("t",)))
        elif deed == "say":
            add_run(store, identity, f"{seed} {number}")
        elif deed == "fork":
            whole = len(store.read(identity).canisters)
            index = chance.choice((None, chance.randint(0, whole)))
            store.fork(identity, from_index=index, child=f"f{seed}-{number}")
        elif deed == "write":
            message = MessageReceivedEvent(
                canister=UserCanister("w"), message_id=f"{seed}-{number}"
            )
            store.open_inbox(identity).put(message)
        elif deed == "name":
            store.update_metadata(identity, name=f"named {number}", model="m:x")
        elif deed == "delete":
            store.delete(identity)
        else:
            store.contents.add(f"{seed}.{number}".encode(), mime_type="text/plain")


def is_whole(store: ConversationStore, source: dict[str, Any]) -> bool:
    """Return whether each conversation of a store is all that the source has of it."""
    try:
        found = describe(store)["conversations"]
    except StoreError:
        return False
    return all(source["conversations"].get(each) == value for each, value in found.items())
