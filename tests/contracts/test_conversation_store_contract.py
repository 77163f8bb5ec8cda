"""What every store promises, whatever it is made of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest

from vibe_llms.conversations import (
    ConversationMetadata,
    ConversationStore,
    DirectoryStore,
    MemoryStore,
    collect_content,
    find_newest,
    hydrate,
    plan_collection,
    resolve,
    verify,
)
from vibe_llms.exceptions import (
    AmbiguousIdentityError,
    CorruptionError,
    StaleConversationError,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister, UserCanister
from vibe_llms.messages.contents import ImageContent, TextualContent, compute_content_id


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    return MemoryStore() if request.param == "memory" else DirectoryStore(tmp_path)


def say(*texts: str) -> list[AnyCanister]:
    return [UserCanister(text) for text in texts]


def texts_of(store: ConversationStore, identity: str) -> list[str]:
    return [canister.content[0].text for canister in store.read(identity).canisters]


def begin(store: ConversationStore, identity: str, *texts: str) -> str:
    store.create(identity, ConversationMetadata())
    store.append(identity, say(*texts))
    return identity


def say_later_than(store: ConversationStore, identity: str, moment: datetime) -> None:
    """Says something until a file system that rounds to milliseconds shows it as later."""
    for _ in range(10_000):
        store.append(identity, say("now"))
        if store.read_metadata(identity).updated > moment:
            return
    raise AssertionError("`updated` does not follow what is said")


PICTURE = ImageContent(mime_type="image/png", data=b"\x89PNG", name="holiday.png")


def test_000_what_was_appended_reads_back_equal(store: ConversationStore) -> None:
    """A canister comes back from a store as the value that went in."""
    said = [UserCanister("Grüße 🦊\n\u2028"), AssistantCanister("Hello.")]
    store.create("a", ConversationMetadata())

    store.append("a", said[:1])
    store.append("a", said[1:])

    assert store.read("a").canisters == tuple(said)


def test_010_metadata_read_back_equal(store: ConversationStore) -> None:
    """Name, tags and model are kept; a new conversation was updated when it was created."""
    metadata = ConversationMetadata(name='Ü "quoted"\n', tags=("b", "a"), model="local:x")

    store.create("a", metadata)

    assert store.read_metadata("a") == metadata
    assert store.read("a").metadata == metadata


def test_011_saying_something_updates_a_conversation(store: ConversationStore) -> None:
    """`updated` follows what is said, without anybody setting it."""
    store.create("a", ConversationMetadata())
    metadata = store.read_metadata("a")
    assert metadata.updated == metadata.created

    say_later_than(store, "a", metadata.created)

    assert store.read_metadata("a").created == metadata.created


def test_012_changing_one_word_leaves_the_others(store: ConversationStore) -> None:
    """A name, tags or a model can be changed, or taken away, one by one."""
    store.create("a", ConversationMetadata(name="old", tags=("t",), model="m"))

    store.update_metadata("a", name="new")
    after = store.update_metadata("a", model=None, tags=["u", "u", "v"])

    assert (after.name, after.tags, after.model) == ("new", ("u", "v"), None)
    assert store.read_metadata("a") == after


def test_013_what_was_said_long_ago_counts_as_said_then(store: ConversationStore) -> None:
    """Storing it later, as an import does, is not saying it; and nothing makes it older again."""
    began = datetime(2021, 3, 1, tzinfo=UTC)
    said = [
        UserCanister("one", timestamp=began + timedelta(hours=1)),
        UserCanister("two", timestamp=began + timedelta(hours=3)),
        UserCanister("three", timestamp=began + timedelta(hours=2)),
    ]
    store.create("a", ConversationMetadata(created=began))

    store.append("a", said[:2])
    first = store.read_metadata("a").updated
    store.append("a", said[2:])

    assert first == store.read_metadata("a").updated == began + timedelta(hours=3)
    say_later_than(store, "a", datetime(2025, 1, 1, tzinfo=UTC))
    late = store.read_metadata("a").updated
    store.append("a", [UserCanister("four", timestamp=began)])
    assert store.read_metadata("a").updated == late


def test_020_an_identity_is_taken_once(store: ConversationStore) -> None:
    """Creating what exists is refused and leaves it as it was."""
    begin(store, "a", "one")

    with pytest.raises(StoreError, match="already"):
        store.create("a", ConversationMetadata(name="other"))

    assert texts_of(store, "a") == ["one"]
    assert store.read_metadata("a").name is None


@pytest.mark.parametrize(
    "identity",
    ["", "..", "a/b", "../a", "A", "a.", ".a", "a b", "é", "a\0", "a\n", "x" * 65, "con", "-a"],
)
def test_021_an_identity_that_is_no_plain_name_is_refused(
    store: ConversationStore, identity: str
) -> None:
    """No identity leads out of the store or means two things on some file system."""
    for attempt in (
        lambda: store.create(identity, ConversationMetadata()),
        lambda: store.append(identity, say("x")),
        lambda: store.read(identity),
        lambda: store.read_metadata(identity),
        lambda: store.update_metadata(identity, name="x"),
        lambda: store.delete(identity),
        lambda: store.examine(identity),
        lambda: store.fork(identity),
    ):
        with pytest.raises(StoreError, match="cannot be the id"):
            attempt()


def test_022_an_unknown_conversation_is_named(store: ConversationStore) -> None:
    """Every method says which conversation there is not, and makes none."""
    for attempt in (
        lambda: store.append("ghost", say("x")),
        lambda: store.read("ghost"),
        lambda: store.read_metadata("ghost"),
        lambda: store.update_metadata("ghost", name="x"),
        lambda: store.delete("ghost"),
        lambda: store.examine("ghost"),
        lambda: store.fork("ghost"),
        lambda: store.fork("ghost", from_index=0),
    ):
        with pytest.raises(UnknownConversationError, match="ghost"):
            attempt()
    assert list(store.survey()) == []


def test_030_an_append_after_a_position_others_have_passed_is_refused(
    store: ConversationStore,
) -> None:
    """Who says where it believes the end to be learns that others have written meanwhile."""
    begin(store, "a", "one")
    position = store.read("a").position
    store.append("a", say("theirs"))

    with pytest.raises(StaleConversationError):
        store.append("a", say("ours"), after=position)

    assert texts_of(store, "a") == ["one", "theirs"]
    receipt = store.append("a", say("ours"), after=store.read("a").position)
    store.append("a", say("next"), after=receipt.position)
    assert texts_of(store, "a") == ["one", "theirs", "ours", "next"]


def test_040_a_fork_shares_the_history_and_goes_its_own_way(store: ConversationStore) -> None:
    """A fork begins with its parent's history; neither sees what the other says later."""
    begin(store, "a", "one", "two")

    child = store.fork("a")
    store.append("a", say("parent"))
    store.append(child, say("child"))

    assert texts_of(store, child) == ["one", "two", "child"]
    assert texts_of(store, "a") == ["one", "two", "parent"]


@pytest.mark.parametrize("index", [0, 1, 2, 3])
def test_041_a_fork_can_leave_at_any_point(store: ConversationStore, index: int) -> None:
    """`from_index` tells how many canisters are shared, whoever in the chain has stored them."""
    begin(store, "a", "one", "two")
    middle = store.fork("a")
    store.append(middle, say("three"))

    child = store.fork(middle, from_index=index)
    store.append(child, say("own"))

    assert texts_of(store, child) == [*["one", "two", "three"][:index], "own"]


def test_042_a_fork_takes_over_name_tags_and_model(store: ConversationStore) -> None:
    """A fork is about the same thing as its parent."""
    store.create("a", ConversationMetadata(name="n", tags=("t",), model="m"))

    metadata = store.read_metadata(store.fork("a", child="b"))

    assert (metadata.name, metadata.tags, metadata.model) == ("n", ("t",), "m")
    assert metadata.parent is not None
    assert metadata.parent.identity == "a"


def test_043_a_fork_point_beyond_the_history_shows_when_it_is_read(
    store: ConversationStore,
) -> None:
    """A store does not count on forking; reading says that the parent is too short."""
    begin(store, "a", "one")
    child = store.fork("a", from_index=2)
    store.append("a", say("late"))  # what a parent says later must not slip in
    store.append("a", say("later"))
    other = store.fork("a", from_index=9)
    store.append(other, say("own"))

    with pytest.raises(CorruptionError, match="9"):
        store.read(other)

    assert store.read(child).canisters[0].content[0].text == "one"
    tolerant = store.read(other, tolerant=True)
    assert [canister.content[0].text for canister in tolerant.canisters] == ["own"]
    assert len(tolerant.notices) == 1
    assert len(verify(store).findings) == 1


def test_050_deleting_a_parent_gives_its_forks_what_they_need(store: ConversationStore) -> None:
    """Whatever the order of deletions, each fork keeps its history."""
    begin(store, "root", "1", "2", "3")
    store.fork("root", child="end")
    store.fork("root", from_index=1, child="early")
    store.append("end", say("4", "5"))
    store.fork("end", child="grandchild")
    store.fork("end", from_index=2, child="shallow")
    store.fork("end", from_index=4, child="deep")
    for identity in ("early", "grandchild", "shallow", "deep"):
        store.append(identity, say(identity))
    expected = {identity: texts_of(store, identity) for identity in store.survey()}

    for doomed in ("end", "root", "early", "grandchild", "shallow", "deep"):
        store.delete(doomed)
        del expected[doomed]
        assert {each: texts_of(store, each) for each in store.survey()} == expected
        assert verify(store).findings == ()


def test_051_a_position_survives_the_deletion_of_a_parent(store: ConversationStore) -> None:
    """That a fork received its parent's canisters is not mistaken for others' writing."""
    begin(store, "a", "one")
    store.fork("a", child="b")
    position = store.append("b", say("two")).position
    store.delete("a")

    store.append("b", say("three"), after=position)

    assert texts_of(store, "b") == ["one", "two", "three"]
    with pytest.raises(StaleConversationError):
        store.append("b", say("four"), after=position)


def test_052_deleting_does_not_count_as_saying_something(store: ConversationStore) -> None:
    """A fork that received its parent's canisters keeps the moment of its last message."""
    begin(store, "a", "one")
    store.fork("a", child="b")
    store.append("b", say("two"))
    before = store.read_metadata("b").updated

    store.delete("a")

    assert store.read_metadata("b").updated == before


def test_060_bytes_of_media_go_to_the_content_store(store: ConversationStore) -> None:
    """A stored message names its pictures; their bytes are kept once, and can be loaded."""
    store.create("a", ConversationMetadata())
    store.append("a", [UserCanister([TextualContent("Look."), PICTURE])])
    store.append("a", [UserCanister([attrs.evolve(PICTURE, name="again.png")])])

    read = store.read("a").canisters

    assert read[0].content[1] == attrs.evolve(PICTURE, data=None)
    assert hydrate(read, store.contents)[0].content[1] == PICTURE
    content_id = compute_content_id(b"\x89PNG")
    assert list(store.contents.survey()) == [content_id]
    metadata = store.contents.access_metadata(content_id)
    assert (metadata.mime_type, metadata.size_bytes, metadata.name) == (
        "image/png",
        4,
        "holiday.png",
    )


def test_061_a_message_may_not_refer_to_content_that_is_not_there(
    store: ConversationStore,
) -> None:
    """A dangling reference is refused before anything is stored; a URL is a source of its own."""
    store.create("a", ConversationMetadata())
    dangling = ImageContent(mime_type="image/png", content_id="0" * 64)
    elsewhere = ImageContent(mime_type="image/png", content_id="0" * 64, url="https://x.test/")

    with pytest.raises(StoreError, match="not in this store"):
        store.append("a", [UserCanister("text"), UserCanister([dangling])])

    assert store.read("a").canisters == ()
    store.append("a", [UserCanister([elsewhere])])
    read = store.read("a").canisters
    assert hydrate(read, store.contents) == read


def test_070_content_that_nothing_refers_to_is_collected(store: ConversationStore) -> None:
    """A plan shows what would go; only that goes, and never what a conversation needs."""
    store.create("a", ConversationMetadata())
    store.append("a", [UserCanister([PICTURE])])
    idle = store.contents.add(b"idle", mime_type="text/plain")

    assert plan_collection(store).content_ids == ()  # too young: its message may be on its way
    plan = plan_collection(store, grace_seconds=0)
    assert (plan.content_ids, plan.size_bytes) == ((idle,), 4)
    assert store.contents.contains(idle)
    assert collect_content(store, plan, grace_seconds=0) == plan

    assert not store.contents.contains(idle)
    assert verify(store).findings == ()


def test_071_what_has_been_referred_to_since_the_plan_stays(store: ConversationStore) -> None:
    """Between showing and doing, content may have come to be needed."""
    store.create("a", ConversationMetadata())
    content_id = store.contents.add(b"\x89PNG", mime_type="image/png")
    plan = plan_collection(store, grace_seconds=0)
    store.append("a", [UserCanister([attrs.evolve(PICTURE, data=None)])])

    removed = collect_content(store, plan, grace_seconds=0)

    assert removed.content_ids == ()
    assert store.contents.read(content_id) == b"\x89PNG"


def test_072_forks_keep_content_alive_after_their_parent(store: ConversationStore) -> None:
    """Content is needed as long as any conversation's history needs it."""
    store.create("a", ConversationMetadata())
    store.append("a", [UserCanister([PICTURE])])
    store.fork("a", child="b")
    store.delete("a")

    assert plan_collection(store, grace_seconds=0).content_ids == ()
    store.delete("b")
    assert len(plan_collection(store, grace_seconds=0).content_ids) == 1


def test_073_missing_content_is_found(store: ConversationStore) -> None:
    """A proof reports every reference that leads nowhere."""
    store.create("a", ConversationMetadata())
    store.append("a", [UserCanister([PICTURE])])
    with store.contents.hold_alone():
        store.contents.remove(compute_content_id(b"\x89PNG"))

    verification = verify(store)

    assert verification.findings
    assert "no content" in str(verification.findings[0])


def test_080_a_shortened_id_names_one_conversation(store: ConversationStore) -> None:
    """A unique prefix is enough; a whole id wins over longer ones that begin with it."""
    for identity in ("abc", "abcd", "xyz"):
        store.create(identity, ConversationMetadata())

    assert resolve(store, "x") == "xyz"
    assert resolve(store, "ABC ") == "abc"
    with pytest.raises(AmbiguousIdentityError) as caught:
        resolve(store, "ab")
    assert caught.value.candidates == ("abc", "abcd")
    for nothing in ("q", ""):
        with pytest.raises(UnknownConversationError):
            resolve(store, nothing)


def test_081_the_newest_is_the_one_in_which_was_spoken_last(store: ConversationStore) -> None:
    """To continue with no id is to go on where something was said last."""
    assert find_newest(store) is None
    begin(store, "a", "one")
    begin(store, "b", "one")
    say_later_than(store, "a", store.read_metadata("b").updated)

    assert find_newest(store) == "a"
