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


def make_messages(*texts: str) -> list[AnyCanister]:
    """Make canisters of a user's texts."""
    return [UserCanister(text) for text in texts]


def read_texts(store: ConversationStore, identity: str) -> list[str]:
    """Return the texts of a conversation."""
    return [text_of(canister) for canister in store.read(identity).canisters]


def create_with_texts(store: ConversationStore, identity: str, *texts: str) -> str:
    """Create a conversation with messages."""
    store.create(identity, ConversationMetadata())
    store.append(identity, make_messages(*texts))
    return identity


def append_after(store: ConversationStore, identity: str, moment: datetime) -> None:
    """Append messages until `updated` is later than a moment, as clocks can be coarse."""
    for _ in range(10_000):
        store.append(identity, make_messages("now"))
        if store.read_metadata(identity).updated > moment:
            return
    require(False, "New messages do not change `updated`.", "Set it with each append.")


def expect_texts(store: ConversationStore, identity: str, *texts: str, remedy: str) -> None:
    """Require exactly these texts."""
    stored = read_texts(store, identity)
    require(stored == list(texts), f"{identity!r} has {stored}, not {list(texts)}.", remedy)


_INVALID_IDS = (
    "",
    "..",
    "a/b",
    "../a",
    "A",
    "a.",
    ".a",
    "a b",
    "é",
    "a\0",
    "a\n",
    "x" * 65,
    "con",
    "-a",
)
_ENSURE_IDENTITY = "Call ensure_identity first, in every method that takes an identity."
_FORK = "A fork has the canisters of its parent up to the fork point, then its own."
_DELETE_PARENT = (
    "Copy the shared canisters to each fork, and link it to the parent of the deleted conversation."
)


class HistoryPromises:
    """Promises of stores about every conversation."""

    def produce_store(self, directory: Path) -> ConversationStore:
        """Make an empty store in a directory, which exists and is empty."""
        raise NotImplementedError

    def test_what_was_appended_reads_back_equal(self, tmp_path: Path) -> None:
        """A canister from a store equals the stored value."""
        store = self.produce_store(tmp_path)
        messages: list[AnyCanister] = [
            UserCanister("Grüße 🦊\n\u2028"),
            AssistantCanister("Hello."),
        ]
        store.create("a", ConversationMetadata())

        store.append("a", messages[:1])
        store.append("a", messages[1:])

        read = store.read("a").canisters
        remedy = "Write canisters with encode_canister and read them with decode_canister."
        require(read == tuple(messages), f"Reading returns {read}.", remedy)

    def test_metadata_read_back_equal(self, tmp_path: Path) -> None:
        """Name, tags and model are kept; a new conversation's update time is its creation time."""
        store = self.produce_store(tmp_path)
        metadata = ConversationMetadata(
            name='Ü "quoted"\n', tags=("b", "a"), model="local:x", keep=0, pinned=("m2", "m1")
        )

        store.create("a", metadata)

        for read in (store.read_metadata("a"), store.read("a").metadata):
            require(
                read == metadata, f"Reading returns {read}.", "Store every field, in its order."
            )

    def test_saying_something_updates_a_conversation(self, tmp_path: Path) -> None:
        """`updated` follows the last message automatically."""
        store = self.produce_store(tmp_path)
        store.create("a", ConversationMetadata())
        metadata = store.read_metadata("a")

        append_after(store, "a", metadata.updated)

        created = store.read_metadata("a").created
        require(created == metadata.created, "New messages change `created`.", "Set it once.")

    def test_changing_one_word_leaves_the_others(self, tmp_path: Path) -> None:
        """A name, tags or a model can be changed or removed separately."""
        store = self.produce_store(tmp_path)
        store.create("a", ConversationMetadata(name="old", tags=("t",), model="m", keep=2))

        store.update_metadata("a", name="new")
        store.update_metadata("a", keep=None, pinned=["m1"])
        after = store.update_metadata("a", model=None, tags=["u", "u", "v"])

        fields = (after.name, after.tags, after.model, after.keep, after.pinned)
        remedy = "ABSENT keeps a value, None removes it, and each tag is stored once."
        expected = ("new", ("u", "v"), None, None, ("m1",))
        require(fields == expected, f"The metadata are {fields}.", remedy)
        is_stored = store.read_metadata("a") == after
        require(is_stored, "Reading returns other metadata.", "Store what you return.")

    def test_what_was_said_long_ago_counts_as_said_then(self, tmp_path: Path) -> None:
        """`updated` follows the time of old messages, and never goes back."""
        store = self.produce_store(tmp_path)
        began = datetime(2021, 3, 1, tzinfo=UTC)
        messages = [
            UserCanister("x", timestamp=began + timedelta(hours=hours)) for hours in (1, 3, 2)
        ]
        store.create("a", ConversationMetadata(created=began))
        remedy = (
            "Set `updated` to find_moment(canisters, now), or to now; never to an earlier time."
        )

        for part in (messages[:2], messages[2:]):
            store.append("a", part)
            updated = store.read_metadata("a").updated
            latest = began + timedelta(hours=3)
            require(updated == latest, f"`updated` is {updated}, not {latest}.", remedy)
        append_after(store, "a", datetime(2025, 1, 1, tzinfo=UTC))
        late = store.read_metadata("a").updated
        store.append("a", [UserCanister("y", timestamp=began)])

        updated = store.read_metadata("a").updated
        require(updated == late, f"`updated` is {updated}, not {late}.", remedy)

    def test_an_identity_is_taken_once(self, tmp_path: Path) -> None:
        """Creating an existing conversation is refused and leaves it unchanged."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "a", "one")

        with expect(
            StoreError, "A conversation is created twice.", "Raise StoreError.", naming="already"
        ):
            store.create("a", ConversationMetadata(name="other"))

        expect_texts(store, "a", "one", remedy="Refuse before you write.")
        require(
            store.read_metadata("a").name is None,
            "The existing one is renamed.",
            "Refuse before you write.",
        )

    def test_an_identity_that_is_no_plain_name_is_refused(self, tmp_path: Path) -> None:
        """No identity leads out of the store or is ambiguous on some file system."""
        store = self.produce_store(tmp_path)

        for invalid in _INVALID_IDS:
            attempts: tuple[Callable[[str], object], ...] = (
                lambda identity: store.create(identity, ConversationMetadata()),
                lambda identity: store.append(identity, make_messages("x")),
                store.read,
                store.read_metadata,
                store.secure,
                lambda identity: store.update_metadata(identity, name="x"),
                store.delete,
                store.examine,
                store.fork,
            )
            for attempt in attempts:
                with expect(
                    StoreError,
                    f"The id {invalid!r} is accepted.",
                    _ENSURE_IDENTITY,
                    naming="Invalid id of a conversation",
                ):
                    attempt(invalid)

    def test_an_unknown_conversation_is_named(self, tmp_path: Path) -> None:
        """Every method names the unknown conversation, and creates none."""
        store = self.produce_store(tmp_path)
        attempts: tuple[Callable[[str], object], ...] = (
            lambda identity: store.append(identity, make_messages("x")),
            store.read,
            store.read_metadata,
            store.secure,
            lambda identity: store.update_metadata(identity, name="x"),
            store.delete,
            store.examine,
            store.fork,
            lambda identity: store.fork(identity, from_index=0),
        )

        for attempt in attempts:
            remedy = "Raise UnknownConversationError(identity=identity)."
            with expect(
                UnknownConversationError,
                "The unknown conversation 'ghost' is accepted.",
                remedy,
                naming="ghost",
            ):
                attempt("ghost")

        require(list(store.survey()) == [], "It creates a conversation.", "Check before you write.")

    def test_what_is_secured_is_readable(self, tmp_path: Path) -> None:
        """Waiting for the disk does not change the content; no test can cut the power."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "a", "one")
        child = store.fork("a")

        store.secure("a")
        store.secure(child)

        expect_texts(
            store, child, "one", remedy="Return when everything that is readable is on the disk."
        )

    def test_an_append_after_a_position_others_have_passed_is_refused(self, tmp_path: Path) -> None:
        """An append with an outdated position reports that others have written in between."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "a", "one")
        position = store.read("a").position
        store.append("a", make_messages("theirs"))

        remedy = "If `after` is given, compare its own_size with that of the current end."
        with expect(StaleConversationError, "An outdated append is accepted.", remedy):
            store.append("a", make_messages("ours"), after=position)

        expect_texts(store, "a", "one", "theirs", remedy="Compare before you write.")
        receipt = store.append("a", make_messages("ours"), after=store.read("a").position)
        store.append("a", make_messages("next"), after=receipt.position)
        expect_texts(store, "a", "one", "theirs", "ours", "next", remedy=remedy)

    def test_an_append_is_kept_whole_or_not_at_all(self, tmp_path: Path) -> None:
        """Two canisters with one id are refused, and nothing of the append is stored."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "a", "one")
        message = make_messages("two")[0]

        with expect(StoreError, "An id is stored twice.", "Call ensure_distinct first."):
            store.append("a", [*make_messages("before"), message, message])

        store.append("a", [])
        expect_texts(store, "a", "one", remedy="Store all canisters of an append, or none.")

    def test_a_fork_shares_the_history_and_goes_its_own_way(self, tmp_path: Path) -> None:
        """A fork begins with its parent's history; later messages are separate."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "a", "one", "two")

        child = store.fork("a")
        store.append("a", make_messages("parent"))
        store.append(child, make_messages("child"))

        expect_texts(store, child, "one", "two", "child", remedy=_FORK)
        expect_texts(store, "a", "one", "two", "parent", remedy=_FORK)

    def test_a_fork_can_leave_at_any_point(self, tmp_path: Path) -> None:
        """`from_index` is the number of shared canisters, in any conversation of the chain."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "a", "one", "two")
        middle = store.fork("a")
        store.append(middle, make_messages("three"))

        for index in range(4):
            child = store.fork(middle, from_index=index)
            store.append(child, make_messages("own"))
            expect_texts(store, child, *["one", "two", "three"][:index], "own", remedy=_FORK)

    def test_a_fork_takes_over_name_tags_and_model(self, tmp_path: Path) -> None:
        """A fork has the name, tags, model, pins and turns to keep of its parent."""
        store = self.produce_store(tmp_path)
        given = ConversationMetadata(name="n", tags=("t",), model="m", keep=3, pinned=("m1",))
        store.create("a", given)

        metadata = store.read_metadata(store.fork("a", child="b"))

        require(
            not given.compare(metadata),
            f"The fork differs by {given.compare(metadata)}.",
            "Copy the parent's fields with ConversationMetadata.fork.",
        )
        require(
            metadata.parent is not None and metadata.parent.identity == "a",
            f"Its parent is {metadata.parent}.",
            "Store a ParentLink to the parent.",
        )

    def test_a_fork_point_beyond_the_history_shows_when_it_is_read(self, tmp_path: Path) -> None:
        """A store does not check at the fork; reading reports that the parent is too short."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "a", "one")
        child = store.fork("a", from_index=2)
        store.append("a", make_messages("late"))  # a later message of the parent must not appear
        store.append("a", make_messages("later"))
        other = store.fork("a", from_index=9)
        store.append(other, make_messages("own"))

        remedy = "Raise CorruptionError if the parents have fewer canisters than the fork shares."
        with expect(CorruptionError, "Reading such a fork succeeds.", remedy, naming="9"):
            store.read(other)

        expect_texts(store, child, "one", "late", remedy=_FORK)
        tolerant = store.read(other, tolerant=True)
        own = [text_of(canister) for canister in tolerant.canisters]
        remedy = "With tolerant=True, return the fork's own canisters, and a notice."
        require(
            own == ["own"] and len(tolerant.notices) == 1, f"Reading returns {tolerant}.", remedy
        )
        findings = verify(store).findings
        require(len(findings) == 1, f"verify finds {findings}.", "Let examine report it, too.")

    def test_deleting_a_parent_gives_its_forks_what_they_need(self, tmp_path: Path) -> None:
        """In any order of deletions, each fork keeps its history."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "root", "1", "2", "3")
        store.fork("root", child="end")
        store.fork("root", from_index=1, child="early")
        store.append("end", make_messages("4", "5"))
        store.fork("end", child="grandchild")
        store.fork("end", from_index=2, child="shallow")
        store.fork("end", from_index=4, child="deep")
        for identity in ("early", "grandchild", "shallow", "deep"):
            store.append(identity, make_messages(identity))
        expected = {identity: read_texts(store, identity) for identity in store.survey()}

        for deleted in ("end", "root", "early", "grandchild", "shallow", "deep"):
            store.delete(deleted)
            del expected[deleted]
            texts = {each: read_texts(store, each) for each in store.survey()}
            problem = f"After the deletion of {deleted!r} there are {texts}, not {expected}."
            require(texts == expected, problem, _DELETE_PARENT)
            findings = verify(store).findings
            require(findings == (), f"verify finds {findings}.", _DELETE_PARENT)

    def test_a_position_survives_the_deletion_of_a_parent(self, tmp_path: Path) -> None:
        """Receiving its parent's canisters does not count as a write to the fork."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "a", "one")
        store.fork("a", child="b")
        position = store.append("b", make_messages("two")).position
        store.delete("a")

        store.append("b", make_messages("three"), after=position)

        remedy = "Position.merged counts the canisters that were copied from deleted parents."
        expect_texts(store, "b", "one", "two", "three", remedy=remedy)
        with expect(StaleConversationError, "An outdated append is accepted.", remedy):
            store.append("b", make_messages("four"), after=position)

    def test_what_is_behind_a_position_can_be_read_alone(self, tmp_path: Path) -> None:
        """Also after a parent was deleted; a store may decline, and is then read as a whole."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "a", "one", "two")
        store.fork("a", from_index=1, child="b")
        store.append("b", make_messages("three"))
        position = store.read("b").position
        for is_merged in (False, True):
            if is_merged:
                store.delete("a")
            for texts in ([], ["four"]):
                store.append("b", make_messages(*texts))
                grown = store.read_on("b", position)
                if grown is None:
                    return
                read = [text_of(each) for each in grown.canisters]
                remedy = "Return only the canisters behind the position."
                require(read == texts, f"{read} is behind the position, not {texts}.", remedy)
                is_end = grown.position == store.read("b").position
                require(is_end, "The position is another one.", "Return the end of the whole.")
                position = grown.position

    def test_deleting_does_not_count_as_saying_something(self, tmp_path: Path) -> None:
        """A fork that received its parent's canisters keeps its own last time."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "a", "one")
        store.fork("a", child="b")
        store.append("b", make_messages("two"))
        before = store.read_metadata("b").updated

        store.delete("a")

        after = store.read_metadata("b").updated
        require(
            after == before, f"`updated` is {after}, not {before}.", "Leave `updated` unchanged."
        )
