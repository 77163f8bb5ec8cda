"""The conversation in memory: a small surface over what was said so far."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from support.stores.disks import HastyDisk
from vibe_llms.conversations import Conversation, ConversationStore, DirectoryStore, MemoryStore
from vibe_llms.conversations.canister_media import hydrate
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.exceptions import StaleConversationError, StoreError, UnknownConversationError
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.contents import FileContent, ImageContent, TextualContent
from vibe_llms.messages.views import text_of


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    if request.param == "memory":
        return MemoryStore()
    return DirectoryStore(tmp_path, disk=HastyDisk())


def converse(*texts: str) -> Conversation:
    conversation = Conversation()
    for text in texts:
        conversation.add_user_message(text)
    return conversation


def texts_of(conversation: Conversation) -> list[str]:
    return [text_of(canister) for canister in conversation.canisters]


def test_000_a_conversation_grows_by_canisters() -> None:
    """What was added last is the last message."""
    conversation = Conversation()
    assert conversation.last_message is None
    assert (len(conversation), bool(conversation)) == (0, True)

    conversation.add_canister(UserCanister(content=[TextualContent("Hi.")]))
    conversation.add_canisters([AssistantCanister("Hello."), AssistantCanister("Well?")])
    said = conversation.add_user_message("Bye.")

    assert conversation.last_message is said
    assert texts_of(conversation) == ["Hi.", "Hello.", "Well?", "Bye."]
    assert len(conversation) == 4


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, Conversation.copy])
def test_005_a_copy_goes_its_own_way(
    duplicate: Callable[[Conversation], Conversation], store: ConversationStore
) -> None:
    """However it was made: what is added to one, the other lacks; it is saved to the same place."""
    conversation = converse("one")
    conversation.save(store)

    copied = duplicate(conversation)
    copied.add_user_message("two")
    copied.save(store)

    assert (texts_of(conversation), texts_of(copied)) == (["one"], ["one", "two"])
    assert copied.id == conversation.id
    assert texts_of(Conversation.restore(store, conversation.id)) == ["one", "two"]


def test_006_a_pickled_conversation_goes_on_where_it_was(store: ConversationStore) -> None:
    """In another process: all that was said, its name, and its place in the store."""
    conversation = Conversation(metadata=ConversationMetadata(name="n"))
    conversation.add_user_message([TextualContent("one"), ImageContent(data=b"\x89PNG\r\n\x1a\n")])
    conversation.save(store)

    taken = pickle.loads(pickle.dumps(conversation))
    taken.add_user_message("two")
    taken.save(store)

    assert taken.metadata.name == "n"
    assert list(taken.canisters[:1]) == list(conversation.canisters)
    assert texts_of(Conversation.restore(store, conversation.id)) == ["one", "two"]


def test_007_a_fork_can_be_pickled_before_anybody_has_looked_at_it() -> None:
    """It borrows the list of the conversation that it was forked from."""
    conversation = converse("one", "two", "three")

    taken = pickle.loads(pickle.dumps(conversation.fork(2)))

    assert texts_of(taken) == ["one", "two"]


def test_008_the_store_knows_the_type_of_a_medium_that_names_none(
    store: ConversationStore,
) -> None:
    """As a conversation may name content by its id alone."""
    png = b"\x89PNG\r\n\x1a\nrest"
    named = [
        FileContent(content_id=store.contents.add(b"words", mime_type="text/csv")),
        ImageContent(content_id=store.contents.add(png, mime_type="image/*")),
        ImageContent(content_id=store.contents.add(b"x", mime_type="image/*")),
    ]

    (loaded,) = hydrate([UserCanister(named)], store.contents)

    assert [each.mime_type for each in loaded.content] == ["text/csv", "image/png", "image/*"]
    assert [each.data for each in loaded.content] == [b"words", png, b"x"]


def test_010_a_saved_conversation_is_restored_equal(store: ConversationStore) -> None:
    """Canisters, name, tags and model come back; bytes of media stay behind until asked for."""
    conversation = Conversation(metadata=ConversationMetadata(name="n", tags=("t",), model="m"))
    conversation.add_user_message("one")
    conversation.add_user_message([ImageContent(mime_type="image/png", data=b"x")])

    conversation.save(store)
    restored = Conversation.restore(store, conversation.id)

    assert restored.id == conversation.id
    assert attrs.evolve(restored.metadata, updated=conversation.metadata.updated) == (
        conversation.metadata
    )
    assert restored.canisters[0] == conversation.canisters[0]
    assert restored.last_message == UserCanister(
        [attrs.evolve(conversation.canisters[1].content[0], data=None)],
        id=conversation.canisters[1].id,
        timestamp=conversation.canisters[1].timestamp,
    )
    assert conversation.canisters[1].content[0].data == b"x"


def test_011_saving_appends_only_what_is_new(store: ConversationStore) -> None:
    """To save again after each message stores each message once."""
    conversation = Conversation()
    for number in range(5):
        conversation.add_user_message(str(number))
        conversation.save(store)
        conversation.save(store)

    assert texts_of(Conversation.restore(store, conversation.id)) == list("01234")


def test_012_a_changed_name_is_saved(store: ConversationStore) -> None:
    """Name, tags and model are saved when they have changed, and others' changes are kept."""
    conversation = converse("one")
    conversation.save(store)
    store.update_metadata(conversation.id, tags=["theirs"])

    conversation.metadata = attrs.evolve(conversation.metadata, name="ours")
    conversation.save(store)

    metadata = store.read_metadata(conversation.id)
    assert (metadata.name, metadata.tags) == ("ours", ("theirs",))
    assert conversation.metadata == metadata


def test_013_a_restored_conversation_goes_on(store: ConversationStore) -> None:
    """What is said after restoring is appended to what was there."""
    first = converse("one")
    first.save(store)

    second = Conversation.restore(store, first.id)
    second.add_user_message("two")
    second.save(store)

    assert texts_of(Conversation.restore(store, first.id)) == ["one", "two"]


def test_014_saving_to_a_second_store_copies_it_whole(store: ConversationStore) -> None:
    """Another store need not have the parent: it receives everything."""
    parent = converse("one")
    parent.save(store)
    fork = parent.fork()
    fork.add_user_message("two")
    fork.save(store)
    other = MemoryStore()

    fork.save(other)

    assert texts_of(Conversation.restore(other, fork.id)) == ["one", "two"]
    assert other.read_metadata(fork.id).parent is None


async def test_015_saving_in_a_thread_while_others_add_loses_nothing(
    store: ConversationStore,
) -> None:
    """Code on an event loop saves in a thread, twice at once if it comes to that."""
    conversation = converse(*map(str, range(10)))

    async with asyncio.TaskGroup() as group:
        for number in range(10, 20):
            group.create_task(asyncio.to_thread(conversation.save, store))
            conversation.add_user_message(str(number))
    conversation.save(store)

    assert texts_of(Conversation.restore(store, conversation.id)) == list(map(str, range(20)))


def test_020_others_writing_is_noticed(store: ConversationStore) -> None:
    """Saving refuses when others have added meanwhile; nothing is lost on either side."""
    ours = converse("one")
    ours.save(store)
    theirs = Conversation.restore(store, ours.id)
    theirs.add_user_message("theirs")
    theirs.save(store)
    ours.add_user_message("ours")

    with pytest.raises(StaleConversationError, match=ours.id):
        ours.save(store)

    assert texts_of(Conversation.restore(store, ours.id)) == ["one", "theirs"]
    assert texts_of(ours) == ["one", "ours"]


def test_021_merging_puts_ours_behind_theirs(store: ConversationStore) -> None:
    """With `merge`, both are kept, in the order in which they were stored, and both are shown."""
    ours = converse("one")
    ours.save(store)
    theirs = Conversation.restore(store, ours.id)
    theirs.add_user_message("theirs")
    theirs.save(store)
    ours.add_user_message([ImageContent(mime_type="image/png", data=b"ours")])

    ours.save(store, merge=True)
    ours.add_user_message("more")
    ours.save(store)

    assert texts_of(ours) == ["one", "theirs", "", "more"]
    assert ours.canisters[2].content[0].data == b"ours"
    assert texts_of(Conversation.restore(store, ours.id)) == ["one", "theirs", "", "more"]


def test_022_a_fork_saves_what_could_not_be_saved(store: ConversationStore) -> None:
    """Who does not want to merge forks, and keeps both."""
    ours = converse("one")
    ours.save(store)
    store.append(ours.id, [UserCanister("theirs")])
    ours.add_user_message("ours")

    fork = ours.fork()
    fork.save(store)

    assert texts_of(Conversation.restore(store, fork.id)) == ["one", "ours"]
    assert store.examine(fork.id).canisters == 1


@pytest.mark.parametrize(("index", "expected"), [(None, 3), (3, 3), (1, 1), (0, 0), (-1, 2)])
def test_030_a_fork_shares_the_beginning(
    store: ConversationStore, index: int | None, expected: int
) -> None:
    """`from_index` counts as in a slice; a fork stores only what comes after the fork point."""
    conversation = converse("0", "1", "2")
    conversation.save(store)

    fork = conversation.fork(index)
    conversation.add_user_message("parent")
    fork.add_user_message("fork")
    fork.save(store)

    assert texts_of(fork) == [*["0", "1", "2"][:expected], "fork"]
    assert texts_of(Conversation.restore(store, fork.id)) == texts_of(fork)
    assert store.examine(fork.id).canisters == 1
    assert texts_of(conversation) == ["0", "1", "2", "parent"]


@pytest.mark.parametrize("index", [4, -4])
def test_031_a_fork_point_outside_is_refused(index: int) -> None:
    """A fork point that is not in the conversation is named."""
    with pytest.raises(StoreError, match=str(index)):
        converse("0", "1", "2").fork(index)


def test_032_a_fork_of_what_is_not_stored_stands_alone(store: ConversationStore) -> None:
    """What no store has is stored with the fork; what the store has is shared."""
    conversation = converse("0")
    unsaved = conversation.fork()
    conversation.save(store)
    conversation.add_user_message("1")
    half = conversation.fork()
    deeper = half.fork()

    for fork, own in ((unsaved, 1), (half, 1), (deeper, 1)):
        fork.save(store)
        assert store.examine(fork.id).canisters == own
        assert texts_of(Conversation.restore(store, fork.id)) == texts_of(fork)


def test_033_a_fork_whose_parent_went_before_it_was_saved_is_whole(
    store: ConversationStore,
) -> None:
    """To delete a conversation does not take the unsaved fork's history away."""
    conversation = converse("0", "1")
    conversation.save(store)
    fork = conversation.fork(1)
    store.delete(conversation.id)

    fork.save(store)

    assert texts_of(Conversation.restore(store, fork.id)) == ["0"]
    assert fork.metadata.parent is None


def test_034_a_deleted_conversation_is_not_brought_back(store: ConversationStore) -> None:
    """To go on with what somebody has deleted is an error that says so."""
    conversation = converse("0")
    conversation.save(store)
    store.delete(conversation.id)
    conversation.add_user_message("1")

    with pytest.raises(UnknownConversationError):
        conversation.save(store)


def test_040_restoring_reports_a_torn_line(tmp_path: Path) -> None:
    """What a crash has torn is set aside, reported once, and the conversation goes on."""
    store = DirectoryStore(tmp_path)
    conversation = converse("0")
    conversation.save(store)
    messages = Path(store.locate(conversation.id), "messages.jsonl")
    messages.write_bytes(messages.read_bytes() + b'{"role":"us')

    restored = Conversation.restore(store, conversation.id)
    restored.add_user_message("1")
    restored.save(store)

    assert len(restored.notices) == 1
    assert "messages.torn-1" in str(restored.notices[0])
    assert messages.with_name("messages.torn-1").read_bytes() == b'{"role":"us'
    assert Conversation.restore(store, conversation.id).notices == ()
    conversation.add_user_message("2")
    with pytest.raises(StaleConversationError):
        conversation.save(store)


def test_050_a_store_is_known_by_its_directory(tmp_path: Path) -> None:
    """What one object has stored, another of the same directory goes on with, forks included."""
    conversation = Conversation()
    conversation.add_user_message("Hello")
    conversation.save(DirectoryStore(tmp_path))
    conversation.add_user_message("again")
    fork = conversation.fork()

    conversation.save(DirectoryStore(tmp_path))
    fork.save(DirectoryStore(tmp_path))

    store = DirectoryStore(tmp_path)
    assert len(store.read(conversation.id).canisters) == 2
    assert store.read(fork.id).metadata.parent is not None
    assert DirectoryStore(tmp_path / "other") != store
    assert MemoryStore() != MemoryStore()
