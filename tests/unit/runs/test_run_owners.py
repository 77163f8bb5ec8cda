"""Whose a conversation is: of whom asked for its run, whom its tag names, or whose it is part."""

from __future__ import annotations

import pytest

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.conversations.tags import OWNER_TAG, PART_TAG
from vibe_llms.events.engine import RunStartedEvent
from vibe_llms.events.runs import RunRequestedEvent
from vibe_llms.exceptions import UnknownConversationError
from vibe_llms.runs.owners import read_owner, read_subject

STARTED = RunStartedEvent(run_id="r", conversation_id="c", length=1)


def begin(store: MemoryStore, identity: str, *tags: str, subject: str | None = None) -> None:
    """Makes a conversation, and a run that somebody asked for behind another event."""
    store.create(identity, ConversationMetadata(tags=("first", *tags)))
    if subject is not None:
        log = store.open_log(identity)
        log.claim()
        log.append("r", STARTED)
        log.append("r", RunRequestedEvent(spec={"model": "m"}, subject=subject))
        log.append("r", STARTED)
        log.close()


@pytest.mark.parametrize(
    ("tags", "subject", "owner"),
    [
        ((), None, ""),
        ((f"{OWNER_TAG}ann",), None, "ann"),
        ((f"{OWNER_TAG}ann",), "bob", "bob"),
        ((f"{OWNER_TAG}ann",), "", ""),
        ((f"{PART_TAG}whole", f"{OWNER_TAG}ann"), None, "eve"),
        ((f"{PART_TAG}whole",), "bob", "bob"),
        ((f"{PART_TAG}gone", f"{OWNER_TAG}ann"), None, None),
        ((f"{PART_TAG}it",), None, None),
        ((f"{PART_TAG}round",), None, None),
    ],
)
def test_it_is_whose_run_it_is_or_part_of_what_or_whom_its_tag_names(
    tags: tuple[str, ...], subject: str | None, owner: str | None
) -> None:
    """Tags are anybody's to set: they may go in a circle, and name what is gone."""
    store = MemoryStore()
    begin(store, "whole", f"{OWNER_TAG}eve")
    begin(store, "round", f"{PART_TAG}it")
    begin(store, "it", *tags, subject=subject)

    assert read_owner(store, "it") == owner
    assert read_owner(store, "it", store.read_metadata("it")) == owner
    assert read_subject(store, "it") == subject


def test_metadata_that_was_read_is_not_read_again() -> None:
    """Only of that of which it is a part."""
    store = MemoryStore()
    begin(store, "whole", f"{OWNER_TAG}eve")
    begin(store, "it")
    known = ConversationMetadata(tags=(f"{PART_TAG}whole",))

    assert read_owner(store, "it", known) == "eve"
    with pytest.raises(UnknownConversationError):
        read_owner(store, "nobody")
