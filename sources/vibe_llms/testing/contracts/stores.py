"""Contract of stores: inherit it, implement the factory, and run it with pytest.

Contains the promises about media, checks and search; those about conversations and runs are
inherited.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from vibe_llms.conversations.canister_media import hydrate
from vibe_llms.conversations.lookup import find_newest, resolve
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.notes.interfaces import digest_note
from vibe_llms.conversations.proof import collect_content, plan_collection, verify
from vibe_llms.conversations.tags import PART_TAG
from vibe_llms.exceptions import (
    AmbiguousIdentityError,
    StoreError,
    UnknownConversationError,
)
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.contents import ImageContent, TextualContent, compute_content_id
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.vendor_files import VendorFile
from vibe_llms.testing.contracts.histories import (
    HistoryPromises,
    append_after,
    create_with_texts,
    make_messages,
    read_texts,
)
from vibe_llms.testing.contracts.promises import expect, require
from vibe_llms.testing.contracts.run_logs import RunPromises

PICTURE = ImageContent(mime_type="image/png", data=b"\x89PNG", name="holiday.png")
_ID = compute_content_id(b"\x89PNG")
_DETACH = "Call detach_media on appended canisters, and store its result."
_REFERENCES = "Let survey_references yield the content of every conversation, forks included."


class StoreContract(HistoryPromises, RunPromises):
    """Contract of every store of conversations; override ``produce_store`` to make yours."""

    def test_bytes_of_media_go_to_the_content_store(self, tmp_path: Path) -> None:
        """A stored message refers to pictures, whose bytes are stored once and loadable."""
        store = self.produce_store(tmp_path)
        store.create("a", ConversationMetadata())
        store.append("a", [UserCanister([TextualContent("Look."), PICTURE])])
        store.append("a", [UserCanister([attrs.evolve(PICTURE, name="again.png")])])

        read = store.read("a").canisters

        bare = attrs.evolve(PICTURE, data=None)
        require(read[0].content[1] == bare, f"Reading returns {read[0]}.", _DETACH)
        loaded = hydrate(read, store.contents)[0].content[1]
        require(
            loaded == PICTURE, f"Loading returns {loaded}.", "Return the bytes that were added."
        )
        ids = list(store.contents.survey())
        require(ids == [_ID], f"The content ids are {ids}.", "Store equal bytes once.")
        metadata = store.contents.access_metadata(_ID)
        fields = (metadata.mime_type, metadata.size_bytes, metadata.name)
        remedy = "Keep the metadata of the first add."
        is_first = fields == ("image/png", 4, "holiday.png")
        require(is_first, f"The metadata are {fields}.", remedy)

    def test_a_message_may_not_refer_to_content_that_is_not_there(self, tmp_path: Path) -> None:
        """A dangling reference without a URL is refused before anything is stored."""
        store = self.produce_store(tmp_path)
        store.create("a", ConversationMetadata())
        dangling = ImageContent(mime_type="image/png", content_id="0" * 64)
        with_url = attrs.evolve(dangling, url="https://x.test/")

        with expect(
            StoreError, "A dangling reference is appended.", _DETACH, naming="not in this store"
        ):
            store.append("a", [UserCanister("text"), UserCanister([dangling])])

        require(
            store.read("a").canisters == (),
            "A part of the append is stored.",
            "Detach before you write.",
        )
        store.append("a", [UserCanister([with_url])])
        read = store.read("a").canisters
        require(hydrate(read, store.contents) == read, "The URL is lost.", _DETACH)

    def test_content_that_nothing_refers_to_is_collected(self, tmp_path: Path) -> None:
        """A plan lists the unused content; only that is deleted, and never content in use."""
        store = self.produce_store(tmp_path)
        store.create("a", ConversationMetadata())
        store.append("a", [UserCanister([PICTURE])])
        unused = store.contents.add(b"unused", mime_type="text/plain")

        recent = plan_collection(store).content_ids
        require(recent == (), "New content is listed.", "Measure the age from the last add.")
        plan = plan_collection(store, grace_seconds=0)
        require(plan.content_ids == (unused,), f"The plan is {plan}.", _REFERENCES)
        require(
            store.contents.contains(unused),
            "Planning removes content.",
            "Remove content in remove alone.",
        )
        removed = collect_content(store, plan, grace_seconds=0)
        require(removed == plan, f"It removes {removed}.", "Let remove work within hold_alone.")
        is_removed = not store.contents.contains(unused)
        require(is_removed, "Removed content still exists.", "Remove it in remove.")
        findings = verify(store).findings
        require(findings == (), f"verify finds {findings}.", "Remove nothing else.")

    def test_notes_about_vendors_files_end_with_their_content(self, tmp_path: Path) -> None:
        """A note is found by content and account, can be replaced, and ends with the content."""
        store = self.produce_store(tmp_path)
        notes, ends = store.vendor_files, access_now().replace(microsecond=0)
        file, other = VendorFile(id="file-1", ends=ends), VendorFile(id="file-2")
        is_noted = notes.note("0" * 64, "vendor key", file)
        require(not is_noted, "Unknown content has a note.", "Return False without the content.")
        content_id = store.contents.add(b"unused", mime_type="text/plain")
        if not notes.note(content_id, "vendor key", file):
            return  # the store keeps no notes

        notes.note(content_id, "vendor other", other)
        found = notes.find(content_id, "vendor key")
        require(found == file, f"It finds {found}.", "Return the file that was noted.")
        noted = {each.account: each.file for each in notes.survey()}
        expected = {"vendor key": file, "vendor other": other}
        require(noted == expected, f"The notes are {noted}.", "Keep one note for each account.")
        notes.forget(content_id, "vendor key", "another id")
        notes.forget(content_id, "vendor other", "file-2")
        is_kept = notes.find(content_id, "vendor key") == file
        require(is_kept, "A replaced id removes its successor.", "Compare the id in forget.")
        is_gone = notes.find(content_id, "vendor other") is None
        require(is_gone, "A forgotten note is found.", "Remove it in forget.")

        collect_content(store, plan_collection(store, grace_seconds=0), grace_seconds=0)
        store.contents.add(b"unused", mime_type="text/plain")
        is_gone = notes.find(content_id, "vendor key") is None
        require(is_gone, "A note outlives its content.", "Remove notes with their content.")

    def test_notes_are_changed_one_at_a_time(self, tmp_path: Path) -> None:
        """A note is found by its key, changed, moved and deleted; invalid keys are refused."""
        notes = self.produce_store(tmp_path).notes
        try:
            notes.change("own/user/tea.md", lambda old: f"{old} green")
        except StoreError:
            return  # the store keeps no notes

        notes.change("own/user/tea.md", lambda old: f"{old} tea")
        read = notes.read(["own/user/tea.md", "own/user/milk.md"])
        expected = {"own/user/tea.md": "None green tea"}
        require(read == expected, f"The notes are {read}.", "Pass the current text to change.")
        keys = ["own/user/list.md"] * 20  # each change adds a letter, from several threads
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda key: notes.change(key, lambda old: f"{old or ''}x"), keys))
        written = notes.read(["own/user/list.md"])
        is_whole = written == {"own/user/list.md": "x" * len(keys)}
        require(is_whole, f"A change is lost: {written}.", "Lock a note while it changes.")
        notes.change("own/user/list.md", lambda old: None)
        before = notes.survey("own/user/")
        notes.change("own/user/tea.md", lambda old: "black")
        after = notes.survey("own/user/t")
        has_changed = after.keys() == before.keys() and after != before
        require(has_changed, f"survey returns {after}.", "Return another stamp for another text.")
        notes.change("own/user/a/b.md", lambda old: "other")
        with expect(StoreError, "A note is overwritten.", "Refuse in move.", naming="exists"):
            notes.move({"own/user/tea.md": "own/user/a/b.md"})
        notes.move({"own/user/tea.md": "own/user/a/tea.md"})
        moved = notes.read(["own/user/a/tea.md"])
        require(moved == {"own/user/a/tea.md": "black"}, f"It reads {moved}.", "Keep the text.")
        for key in ("own/user/a/b.md", "own/user/a/tea.md"):
            notes.change(key, lambda old: None)
        require(not notes.survey(""), "A deleted note is listed.", "Delete it if None is returned.")
        notes.change("own/user/list.md", lambda old: "new")
        found = {key: each.digest for key, each in notes.survey_deleted().items()}
        black = dict.fromkeys(("own/user/tea.md", "own/user/a/tea.md"), digest_note("black"))
        is_known = found == {**black, "own/user/a/b.md": digest_note("other")}
        require(is_known, f"Deleted notes are {[*found]}.", "Remember deleted and moved notes.")
        for key in ("own/../x", "/x", "own//x", "own/.x", "own/x\n", ""):
            with expect(StoreError, f"{key!r} is taken.", "Call ensure_key.", naming="Invalid"):
                notes.change(key, lambda old: "text")

    def test_what_has_been_referred_to_since_the_plan_stays(self, tmp_path: Path) -> None:
        """Content may be used again between the plan and the deletion."""
        store = self.produce_store(tmp_path)
        store.create("a", ConversationMetadata())
        store.contents.add(b"\x89PNG", mime_type="image/png")
        plan = plan_collection(store, grace_seconds=0)
        store.append("a", [UserCanister([attrs.evolve(PICTURE, data=None, content_id=_ID)])])

        removed = collect_content(store, plan, grace_seconds=0)

        require(removed.content_ids == (), f"It removes {removed}.", _REFERENCES)
        require(store.contents.read(_ID) == b"\x89PNG", "Content in use is gone.", _REFERENCES)

    def test_forks_keep_content_alive_after_their_parent(self, tmp_path: Path) -> None:
        """Content is kept as long as any conversation's history uses it."""
        store = self.produce_store(tmp_path)
        store.create("a", ConversationMetadata())
        store.append("a", [UserCanister([PICTURE])])
        store.fork("a", child="b")
        store.delete("a")

        plan = plan_collection(store, grace_seconds=0)
        require(plan.content_ids == (), f"The plan is {plan}.", _REFERENCES)
        store.delete("b")
        plan = plan_collection(store, grace_seconds=0)
        require(
            plan.content_ids == (_ID,),
            f"The plan is {plan}.",
            "Leave deleted conversations out of survey_references.",
        )

    def test_missing_content_is_found(self, tmp_path: Path) -> None:
        """A check reports every dangling reference."""
        store = self.produce_store(tmp_path)
        store.create("a", ConversationMetadata())
        store.append("a", [UserCanister([PICTURE])])
        with store.contents.hold_alone():
            store.contents.remove(_ID)

        findings = verify(store).findings

        is_reported = bool(findings) and _ID in findings[0].message
        remedy = "Return Examination.references, and let contents.examine report missing content."
        require(is_reported, f"verify finds {findings}.", remedy)

    def test_a_shortened_id_names_one_conversation(self, tmp_path: Path) -> None:
        """A unique prefix is enough; a complete id takes precedence over longer ids with
        the same beginning."""
        store = self.produce_store(tmp_path)
        for identity in ("abc", "abcd", "xyz"):
            store.create(identity, ConversationMetadata())
        remedy = "Let survey yield every conversation once."

        for prefix, identity in (("x", "xyz"), ("ABC ", "abc")):
            found = resolve(store, prefix)
            require(found == identity, f"{prefix!r} finds {found!r}.", remedy)
        with expect(
            AmbiguousIdentityError, "An ambiguous prefix finds one.", remedy, naming="abcd"
        ):
            resolve(store, "ab")
        with expect(UnknownConversationError, "An unknown prefix finds one.", remedy):
            resolve(store, "q")

    def test_the_newest_is_the_one_in_which_was_spoken_last(self, tmp_path: Path) -> None:
        """Continuing without an id selects the conversation with the last message."""
        store = self.produce_store(tmp_path)
        require(
            find_newest(store) is None,
            "An empty store has a conversation.",
            "Begin with an empty one.",
        )
        create_with_texts(store, "a", "one")
        create_with_texts(store, "b", "one")
        append_after(store, "a", store.read_metadata("b").updated)

        newest = find_newest(store)
        require(newest == "a", f"The newest is {newest!r}.", "Set `updated` with each append.")

    def test_it_is_listed_and_searched(self, tmp_path: Path) -> None:
        """The list begins with the newest; a search finds a fork's shared history in its parent."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "a", "a red fox", "a hare")
        child = store.fork("a")
        append_after(store, child, store.read_metadata("a").updated)
        store.append(child, make_messages("another fox"))
        index = store.index

        rows = index.survey()
        first = [(row.id, row.first_words, row.parent) for row in rows]
        remedy = "Inherit `index` from StoreDefaults, or implement the protocol Index."
        expected = [(child, "a red fox", "a"), ("a", "a red fox", None)]
        require(first == expected, f"The list has {first}.", remedy)
        counts = [row.canisters for row in rows]
        stored_counts = [len(store.read(row.id).canisters) for row in rows]
        require(counts == stored_counts, f"It counts {counts}, not {stored_counts}.", remedy)
        require(len(index.survey(limit=1)) == 1, "It lists more than the limit.", remedy)
        hits = {(hit.id, hit.index) for hit in index.search("FOX")}
        own_position = (child, len(store.read(child).canisters) - 1)
        require(hits == {("a", 0), own_position}, f"The search has {hits}.", remedy)

    def test_what_is_a_part_of_another_is_listed_only_when_it_is_asked_for(
        self, tmp_path: Path
    ) -> None:
        """Visits of a flow are found from the flow, and not among the user's conversations."""
        store = self.produce_store(tmp_path)
        create_with_texts(store, "a", "a red fox")
        store.create("b", ConversationMetadata(tags=("flow", f"{PART_TAG}a")))
        store.append("b", make_messages("a hidden fox"))
        index = store.index

        require(
            find_newest(store) == "a",
            "The newest is a part of another.",
            "Store the tags unchanged.",
        )
        remedy = (
            "Leave out conversations with a tag that begins with PART_TAG, unless `parts` is true."
        )
        for parts, expected in ((False, {"a"}), (True, {"a", "b"})):
            listed = {row.id for row in index.survey(parts=parts)}
            require(listed == expected, f"The list has {listed}.", remedy)
            found = {hit.id for hit in index.search("fox", parts=parts)}
            require(found == expected, f"The search has {found}.", remedy)

    def test_threads_append_at_once(self, tmp_path: Path) -> None:
        """All appends of several threads are stored, each in one piece."""
        store = self.produce_store(tmp_path)
        store.create("a", ConversationMetadata())
        pairs = [make_messages(f"{number} one", f"{number} two") for number in range(8)]

        with ThreadPoolExecutor(4) as threads:
            # The list raises the exceptions of the threads.
            list(threads.map(lambda pair: store.append("a", pair), pairs))

        texts = read_texts(store, "a")
        found = sorted(zip(texts[::2], texts[1::2], strict=True))
        expected = [(f"{number} one", f"{number} two") for number in range(8)]
        require(found == expected, f"It reads {texts}.", "Lock a conversation during an append.")

    def test_a_transaction_is_joined_and_ends(self, tmp_path: Path) -> None:
        """Methods may be called inside; a nested transaction is a part of the outer one."""
        store = self.produce_store(tmp_path)
        with store.transact(), store.transact():
            create_with_texts(store, "a", "one")
        with store.transact(reading=True):
            texts = read_texts(store, "a")

        require(
            texts == ["one"], f"It reads {texts}.", "See transact, which StoreDefaults implements."
        )
