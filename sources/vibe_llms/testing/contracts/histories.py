"""Promises of stores about conversations: messages, metadata, forks, deletions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.proof import verify
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import (
    CorruptionError,
    StaleConversationError,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister, UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.testing.contracts.promises import expect, require


def say(*texts: str) -> list[AnyCanister]:
    """Make canisters of a user's texts."""
    return [UserCanister(text) for text in texts]


def read_texts(store: ConversationStore, identity: str) -> list[str]:
    """Return the texts of a conversation."""
    return [text_of(canister) for canister in store.read(identity).canisters]


def begin(store: ConversationStore, identity: str, *texts: str) -> str:
    """Create a conversation with messages."""
    store.create(identity, ConversationMetadata())
    store.append(identity, say(*texts))
    return identity


def say_later_than(store: ConversationStore, identity: str, moment: datetime) -> None:
    """Append until a clock with coarse resolution shows a later time."""
    for _ in range(10_000):
        store.append(identity, say("now"))
        if store.read_metadata(identity).updated > moment:
            return
    require(False, "`updated` does not change with new messages.", "Set it with each append.")


def expect_texts(store: ConversationStore, identity: str, *texts: str, remedy: str) -> None:
    """Require exactly these texts."""
    found = read_texts(store, identity)
    require(found == list(texts), f"{identity!r} has {found}, not {list(texts)}.", remedy)


_ODD = ("", "..", "a/b", "../a", "A", "a.", ".a", "a b", "é", "a\0", "a\n", "x" * 65, "con", "-a")
_CHECK = "Call ensure_identity first, in every method that takes an identity."
_FORK = "A fork reads its parent up to the fork point, then what it has itself."
_HEIRS = "Copy to each fork what it shares, and link it to the parent of the deleted one."


class HistoryPromises:
    """Promises of stores about every conversation."""

    def produce_store(self, directory: Path) -> ConversationStore:
        """Make the store: an empty one for each directory, which exists and is empty."""
        raise NotImplementedError

    def test_what_was_appended_reads_back_equal(self, tmp_path: Path) -> None:
        """A canister from a store equals the stored value."""
        store = self.produce_store(tmp_path)
        said: list[AnyCanister] = [UserCanister("Grüße 🦊\n\u2028"), AssistantCanister("Hello.")]
        store.create("a", ConversationMetadata())

        store.append("a", said[:1])
        store.append("a", said[1:])

        read = store.read("a").canisters
        remedy = "Write canisters with encode_canister and read them with decode_canister."
        require(read == tuple(said), f"It reads {read}.", remedy)

    def test_metadata_read_back_equal(self, tmp_path: Path) -> None:
        """Name, tags and model are kept; a new conversation's update time is its creation time."""
        store = self.produce_store(tmp_path)
        metadata = ConversationMetadata(name='Ü "quoted"\n', tags=("b", "a"), model="local:x")

        store.create("a", metadata)

        for read in (store.read_metadata("a"), store.read("a").metadata):
            require(read == metadata, f"It reads {read}.", "Keep every field, in its order.")

    def test_saying_something_updates_a_conversation(self, tmp_path: Path) -> None:
        """`updated` follows the last message automatically."""
        store = self.produce_store(tmp_path)
        store.create("a", ConversationMetadata())
        metadata = store.read_metadata("a")

        say_later_than(store, "a", metadata.updated)

        created = store.read_metadata("a").created
        require(created == metadata.created, "`created` changes.", "Set it once.")

    def test_changing_one_word_leaves_the_others(self, tmp_path: Path) -> None:
        """A name, tags or a model can be changed or removed separately."""
        store = self.produce_store(tmp_path)
        store.create("a", ConversationMetadata(name="old", tags=("t",), model="m"))

        store.update_metadata("a", name="new")
        after = store.update_metadata("a", model=None, tags=["u", "u", "v"])

        found = (after.name, after.tags, after.model)
        remedy = "ABSENT means: leave it; None takes it away; each tag counts once."
        require(found == ("new", ("u", "v"), None), f"It has {found}.", remedy)
        require(store.read_metadata("a") == after, "It reads otherwise.", "Keep what you return.")

    def test_what_was_said_long_ago_counts_as_said_then(self, tmp_path: Path) -> None:
        """Storing old messages keeps their time; and nothing makes a conversation older."""
        store = self.produce_store(tmp_path)
        began = datetime(2021, 3, 1, tzinfo=UTC)
        said = [UserCanister("x", timestamp=began + timedelta(hours=hours)) for hours in (1, 3, 2)]
        store.create("a", ConversationMetadata(created=began))
        remedy = "Set `updated` to find_moment(canisters, now), or now, and never back."

        for some in (said[:2], said[2:]):
            store.append("a", some)
            updated = store.read_metadata("a").updated
            latest = began + timedelta(hours=3)
            require(updated == latest, f"It was updated {updated}, not {latest}.", remedy)
        say_later_than(store, "a", datetime(2025, 1, 1, tzinfo=UTC))
        late = store.read_metadata("a").updated
        store.append("a", [UserCanister("y", timestamp=began)])

        updated = store.read_metadata("a").updated
        require(updated == late, f"It was updated {updated}, not {late}.", remedy)

    def test_an_identity_is_taken_once(self, tmp_path: Path) -> None:
        """Creating an existing conversation is refused and leaves it unchanged."""
        store = self.produce_store(tmp_path)
        begin(store, "a", "one")

        with expect(StoreError, "It is created twice.", "Refuse it.", naming="already"):
            store.create("a", ConversationMetadata(name="other"))

        expect_texts(store, "a", "one", remedy="Refuse before you write.")
        require(store.read_metadata("a").name is None, "It is renamed.", "Refuse before you write.")

    def test_an_identity_that_is_no_plain_name_is_refused(self, tmp_path: Path) -> None:
        """No identity leads out of the store or is ambiguous on some file system."""
        store = self.produce_store(tmp_path)

        for odd in _ODD:
            attempts: tuple[Callable[[str], object], ...] = (
                lambda odd: store.create(odd, ConversationMetadata()),
                lambda odd: store.append(odd, say("x")),
                store.read,
                store.read_metadata,
                store.secure,
                lambda odd: store.update_metadata(odd, name="x"),
                store.delete,
                store.examine,
                store.fork,
            )
            for attempt in attempts:
                with expect(
                    StoreError, f"It takes {odd!r}.", _CHECK, naming="Invalid id of a conversation"
                ):
                    attempt(odd)

    def test_an_unknown_conversation_is_named(self, tmp_path: Path) -> None:
        """Every method names the unknown conversation, and creates none."""
        store = self.produce_store(tmp_path)
        attempts: tuple[Callable[[str], object], ...] = (
            lambda ghost: store.append(ghost, say("x")),
            store.read,
            store.read_metadata,
            store.secure,
            lambda ghost: store.update_metadata(ghost, name="x"),
            store.delete,
            store.examine,
            store.fork,
            lambda ghost: store.fork(ghost, from_index=0),
        )

        for attempt in attempts:
            remedy = "Raise UnknownConversationError(identity=identity)."
            with expect(UnknownConversationError, "It takes a ghost.", remedy, naming="ghost"):
                attempt("ghost")

        require(list(store.survey()) == [], "It makes one.", "Look before you write.")

    def test_what_is_secured_is_readable(self, tmp_path: Path) -> None:
        """Waiting for the disk does not change the content; no test can cut the power."""
        store = self.produce_store(tmp_path)
        begin(store, "a", "one")
        child = store.fork("a")

        store.secure("a")
        store.secure(child)

        expect_texts(store, child, "one", remedy="Return when all that reads is on the disk.")

    def test_an_append_after_a_position_others_have_passed_is_refused(self, tmp_path: Path) -> None:
        """An append with an outdated position reports that others have written in between."""
        store = self.produce_store(tmp_path)
        begin(store, "a", "one")
        position = store.read("a").position
        store.append("a", say("theirs"))

        remedy = "Compare after.own_size with that of the present end, where after is given."
        with expect(StaleConversationError, "It appends.", remedy):
            store.append("a", say("ours"), after=position)

        expect_texts(store, "a", "one", "theirs", remedy="Compare before you write.")
        receipt = store.append("a", say("ours"), after=store.read("a").position)
        store.append("a", say("next"), after=receipt.position)
        expect_texts(store, "a", "one", "theirs", "ours", "next", remedy=remedy)

    def test_an_append_is_kept_whole_or_not_at_all(self, tmp_path: Path) -> None:
        """Two canisters with one id are refused, and nothing of the append is stored."""
        store = self.produce_store(tmp_path)
        begin(store, "a", "one")
        twice = say("two")[0]

        with expect(StoreError, "It takes an id twice.", "Call ensure_distinct first."):
            store.append("a", [*say("before"), twice, twice])

        store.append("a", [])
        expect_texts(store, "a", "one", remedy="Write all of an append, or nothing.")

    def test_a_fork_shares_the_history_and_goes_its_own_way(self, tmp_path: Path) -> None:
        """A fork begins with its parent's history; later messages are separate."""
        store = self.produce_store(tmp_path)
        begin(store, "a", "one", "two")

        child = store.fork("a")
        store.append("a", say("parent"))
        store.append(child, say("child"))

        expect_texts(store, child, "one", "two", "child", remedy=_FORK)
        expect_texts(store, "a", "one", "two", "parent", remedy=_FORK)

    def test_a_fork_can_leave_at_any_point(self, tmp_path: Path) -> None:
        """`from_index` is the number of shared canisters, in any conversation of the chain."""
        store = self.produce_store(tmp_path)
        begin(store, "a", "one", "two")
        middle = store.fork("a")
        store.append(middle, say("three"))

        for index in range(4):
            child = store.fork(middle, from_index=index)
            store.append(child, say("own"))
            expect_texts(store, child, *["one", "two", "three"][:index], "own", remedy=_FORK)

    def test_a_fork_takes_over_name_tags_and_model(self, tmp_path: Path) -> None:
        """A fork has the name, tags and model of its parent."""
        store = self.produce_store(tmp_path)
        store.create("a", ConversationMetadata(name="n", tags=("t",), model="m"))

        metadata = store.read_metadata(store.fork("a", child="b"))

        found = (metadata.name, metadata.tags, metadata.model)
        require(found == ("n", ("t",), "m"), f"It has {found}.", "Copy them from the parent.")
        require(
            metadata.parent is not None and metadata.parent.identity == "a",
            f"Its parent is {metadata.parent}.",
            "Keep a ParentLink to the parent.",
        )

    def test_a_fork_point_beyond_the_history_shows_when_it_is_read(self, tmp_path: Path) -> None:
        """A store does not check at the fork; reading reports that the parent is too short."""
        store = self.produce_store(tmp_path)
        begin(store, "a", "one")
        child = store.fork("a", from_index=2)
        store.append("a", say("late"))  # a later message of the parent must not appear
        store.append("a", say("later"))
        other = store.fork("a", from_index=9)
        store.append(other, say("own"))

        remedy = "Raise CorruptionError where the parents have fewer than the fork point says."
        with expect(CorruptionError, "It reads.", remedy, naming="9"):
            store.read(other)

        expect_texts(store, child, "one", "late", remedy=_FORK)
        tolerant = store.read(other, tolerant=True)
        own = [text_of(canister) for canister in tolerant.canisters]
        remedy = "Tolerant, return what the fork has itself, and a notice."
        require(own == ["own"] and len(tolerant.notices) == 1, f"It reads {tolerant}.", remedy)
        findings = verify(store).findings
        require(len(findings) == 1, f"A proof finds {findings}.", "Let examine find it, too.")

    def test_deleting_a_parent_gives_its_forks_what_they_need(self, tmp_path: Path) -> None:
        """In any order of deletions, each fork keeps its history."""
        store = self.produce_store(tmp_path)
        begin(store, "root", "1", "2", "3")
        store.fork("root", child="end")
        store.fork("root", from_index=1, child="early")
        store.append("end", say("4", "5"))
        store.fork("end", child="grandchild")
        store.fork("end", from_index=2, child="shallow")
        store.fork("end", from_index=4, child="deep")
        for identity in ("early", "grandchild", "shallow", "deep"):
            store.append(identity, say(identity))
        expected = {identity: read_texts(store, identity) for identity in store.survey()}

        for doomed in ("end", "root", "early", "grandchild", "shallow", "deep"):
            store.delete(doomed)
            del expected[doomed]
            found = {each: read_texts(store, each) for each in store.survey()}
            happened = f"After the deletion of {doomed!r} there are {found}, not {expected}."
            require(found == expected, happened, _HEIRS)
            findings = verify(store).findings
            require(findings == (), f"A proof finds {findings}.", _HEIRS)

    def test_a_position_survives_the_deletion_of_a_parent(self, tmp_path: Path) -> None:
        """Receiving its parent's canisters does not count as a write to the fork."""
        store = self.produce_store(tmp_path)
        begin(store, "a", "one")
        store.fork("a", child="b")
        position = store.append("b", say("two")).position
        store.delete("a")

        store.append("b", say("three"), after=position)

        remedy = "Position.merged counts what came over from deleted parents."
        expect_texts(store, "b", "one", "two", "three", remedy=remedy)
        with expect(StaleConversationError, "It appends.", remedy):
            store.append("b", say("four"), after=position)

    def test_deleting_does_not_count_as_saying_something(self, tmp_path: Path) -> None:
        """A fork that received its parent's canisters keeps the time of its last message."""
        store = self.produce_store(tmp_path)
        begin(store, "a", "one")
        store.fork("a", child="b")
        store.append("b", say("two"))
        before = store.read_metadata("b").updated

        store.delete("a")

        after = store.read_metadata("b").updated
        require(after == before, f"It was updated {after}, not {before}.", "Leave `updated`.")
