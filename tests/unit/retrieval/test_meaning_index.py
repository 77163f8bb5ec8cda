"""Search by meaning: conversations and folders, updates, interruption, damage."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from vibe_llms import Conversation
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations import MemoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.tags import PART_TAG
from vibe_llms.exceptions import ConverseError, StoreError, UnknownNameError
from vibe_llms.messages.canisters import Origin, SupervisorCanister
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.rankings import RankedText, Ranking
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.providers.scripted.embedding import WordsEmbedder
from vibe_llms.retrieval import MeaningIndex, SyncMeaningIndex
from vibe_llms.retrieval.meaning import _find_ranker
from vibe_llms.retrieval.ranking import join_rankings

WORDS = "scripted:words"


@pytest.fixture
def application(tmp_path: Path) -> Application:
    environment = {
        "VIBE_LLMS_DIRECTORIES_DATA": str(tmp_path / "data"),
        "VIBE_LLMS_DIRECTORIES_CACHE": str(tmp_path / "cache"),
    }
    return Application(load_configuration(environment=environment, working_directory=tmp_path))


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were embedded as passages."""
    texts: list[str] = []
    call = WordsEmbedder.call

    async def record(self: WordsEmbedder, request: EmbeddingRequest) -> Vectors:
        if request.purpose == "passage":
            texts.extend(request.texts)
        return await call(self, request)

    monkeypatch.setattr(WordsEmbedder, "call", record)
    return texts


def save(application: Application, *texts: str) -> Conversation:
    """Stores a conversation of the user's texts."""
    conversation = Conversation()
    for text in texts:
        conversation.add_user_message(text)
    conversation.save(application.store)
    return conversation


def search(application: Application, query: str, **settings: Any) -> list[str]:
    """Returns the texts of the hits."""
    folders = settings.pop("folders", ())
    conversations = settings.pop("conversations", True)
    with SyncMeaningIndex(
        WORDS, application=application, folders=folders, conversations=conversations
    ) as index:
        return [hit.text for hit in index.search(query, **settings)]


def test_the_nearest_message_comes_first(application: Application) -> None:
    save(application, "the bridge over the river", "bread from rye")
    save(application, "a train to the coast")

    assert search(application, "bread")[0] == "bread from rye"
    assert search(application, "train coast", limit=1) == ["a train to the coast"]


def test_a_hit_names_its_message(application: Application) -> None:
    conversation = save(application, "one", "the bridge")

    with SyncMeaningIndex(WORDS, application=application) as index:
        hit = index.search("bridge")[0]

    assert (hit.document, hit.position, hit.role) == (conversation.id, 1, "user")
    assert hit.item == conversation.canisters[1].id
    assert hit.timestamp == conversation.canisters[1].timestamp
    assert hit.similarity is not None
    assert hit.similarity > 0.5


def test_only_new_messages_are_embedded(application: Application, embedded: list[str]) -> None:
    conversation = save(application, "one", "two")
    search(application, "one")
    conversation.add_user_message("three")
    conversation.save(application.store)

    search(application, "one")
    search(application, "one")

    assert sorted(embedded) == ["one", "three", "two"]


def test_deleted_conversations_are_not_found(application: Application) -> None:
    kept, deleted = save(application, "red bridge"), save(application, "blue bridge")
    search(application, "bridge")

    application.store.delete(deleted.id)

    assert search(application, "bridge") == ["red bridge"]
    assert kept.id


def test_parts_of_flows_are_found_only_on_request(application: Application) -> None:
    conversation = Conversation(metadata=ConversationMetadata(tags=(f"{PART_TAG}run",)))
    conversation.add_user_message("a visit")
    conversation.save(application.store)

    assert search(application, "visit") == []
    assert search(application, "visit", parts=True) == ["a visit"]


def test_roles_are_filtered(application: Application) -> None:
    conversation = Conversation()
    rules = (TextualContent(text="the bridge rules"),)
    conversation.add_canister(SupervisorCanister(content=rules))
    conversation.add_user_message("the bridge")
    conversation.save(application.store)

    assert search(application, "bridge", role="supervisor") == ["the bridge rules"]
    with pytest.raises(UnknownNameError, match="result"):
        search(application, "bridge", role="result")


def test_files_of_a_folder_are_found_with_their_lines(
    application: Application, tmp_path: Path
) -> None:
    folder = tmp_path / "docs"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "guide.md").write_text("# Keys\n\nLimit the money of a key.\n")
    (folder / "page.html").write_text("<h1>Trains</h1><p>The train leaves at nine.</p>")
    (folder / ".hidden").write_text("money")
    (folder / "image.bin").write_bytes(b"\xff\xfe money")

    with SyncMeaningIndex(
        WORDS, application=application, folders=[folder], conversations=False
    ) as index:
        (first, *_) = index.search("money")
        trains = index.search("train leaves")
        total = index.count()

    assert (first.collection, first.document) == (str(folder), str(Path("deep", "guide.md")))
    assert (first.position, first.heading) == (3, "Keys")
    assert trains[0].document == "page.html"
    assert total == 2


def test_a_changed_file_is_embedded_again_only_where_it_changed(
    application: Application, tmp_path: Path, embedded: list[str]
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    file = folder / "guide.md"
    file.write_text("# A\n\nold red\n\n# B\n\nblue\n")
    settings: dict[str, Any] = {"folders": [folder], "conversations": False}
    search(application, "blue", **settings)

    file.write_text("# A\n\nnew green text\n\n# B\n\nblue\n")
    os.utime(file, ns=(1, 1))

    assert "old red" not in search(application, "red", **settings)
    assert embedded.count("B\nblue") == 1
    assert "A\nnew green text" in embedded


def test_positions_move_with_the_text(application: Application, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    file = tmp_path / "docs" / "guide.md"
    for text, line in (("# B\n\nblue\n", 3), ("first\n\n\n\n# B\n\nblue\n", 7)):
        file.write_text(text)
        with SyncMeaningIndex(
            WORDS, application=application, folders=[tmp_path / "docs"], conversations=False
        ) as index:
            assert index.search("blue")[0].position == line


def test_a_forgotten_folder_has_no_passages(application: Application, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("blue")
    with SyncMeaningIndex(
        WORDS, application=application, folders=[tmp_path / "docs"], conversations=False
    ) as index:
        index.update()
        assert index.forget(tmp_path / "docs") == 1
        assert index.count() == 0


def test_a_missing_folder_is_an_error_if_there_is_nothing_else(
    application: Application, tmp_path: Path
) -> None:
    with pytest.raises(ConverseError, match="nowhere"):
        search(application, "x", folders=[tmp_path / "nowhere"], conversations=False)


def test_a_missing_folder_is_left_out_and_named(application: Application, tmp_path: Path) -> None:
    save(application, "the bridge")
    folders = [tmp_path / "gone", tmp_path / "docs"]
    for folder in folders:
        folder.mkdir()
        (folder / "a.txt").write_text(f"bridge of {folder.name}")
    with SyncMeaningIndex(WORDS, application=application, folders=folders) as index:
        assert len(index.search("bridge")) == 3
        assert index.notices == ()
        (folders[0] / "a.txt").unlink()
        folders[0].rmdir()
        for update in (True, False):
            texts = {hit.text for hit in index.search("bridge", update=update)}
            assert texts == {"the bridge", "bridge of docs"}
            (notice,) = index.notices
            assert str(folders[0]) in notice
        folders[0].mkdir()
        (folders[0] / "a.txt").write_text("bridge again")
        assert len(index.search("bridge")) == 3
        assert index.notices == ()


class _Ranker:
    """Orders texts by their length, the shortest first; or fails."""

    def __init__(self, error: ConverseError | None = None) -> None:
        self.error, self.texts = error, list[str]()

    async def rank(self, query: str, texts: Any, **_: Any) -> Ranking:
        if self.error is not None:
            raise self.error
        self.texts = list(texts)
        order = sorted(range(len(self.texts)), key=lambda index: len(self.texts[index]))
        ranked = tuple(
            RankedText(index=each, score=1.0 / (each + 1), text=self.texts[each]) for each in order
        )
        return Ranking(ranked=ranked, origin=Origin(provider="test", model="short"))

    async def close(self) -> None: ...


def test_a_ranker_orders_what_was_found(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["bridge bridge bridge", "a bridge in the far north of the country", "bridge"]
    save(application, *texts, "bread")
    ranker = _Ranker()
    monkeypatch.setattr("vibe_llms.retrieval.meaning._find_ranker", lambda _: ranker)
    with SyncMeaningIndex(WORDS, application=application) as index:
        hits = index.search("bridge", limit=2)
        assert [hit.text for hit in hits] == ["bread", "bridge"]  # the shortest
        assert all(hit.relevance is not None for hit in hits)
        assert set(texts) <= set(ranker.texts)
        ranker.error = ConverseError(detail="The ranker is busy.")
        hits = index.search("bridge", limit=2)
        assert "bread" not in [hit.text for hit in hits]
        (notice,) = index.notices
        assert "busy" in notice


@pytest.mark.parametrize(
    ("ranker", "is_used"),
    [("", False), ("local:e5-small", False), (WORDS, False), ("jina:jina-reranker-v3", True)],
)
def test_only_a_ranker_of_its_own_is_used(tmp_path: Path, ranker: str, is_used: bool) -> None:
    """An embedder as the ranker would compare the same vectors again."""
    application = Application(
        load_configuration(
            environment={},
            working_directory=tmp_path,
            command_line={"ranker": ranker} if ranker else {},
        )
    )
    assert (_find_ranker(application) is not None) == is_used


def test_a_full_disk_leaves_the_index_whole(application: Application) -> None:
    save(application, "the bridge over the river")
    with SyncMeaningIndex(WORDS, application=application) as index:
        assert index.update() == 1
        database = index.asynchronous._database
        assert database is not None
        connection = database._connection
        pages = connection.execute("PRAGMA page_count").get
        connection.execute(f"PRAGMA max_page_count = {pages}")  # as if the disk were full
        long = save(application, *(f"bridge {number} " * 400 for number in range(40)))
        with pytest.raises(StoreError) as failure:
            index.update()
        assert "\n" not in str(failure.value)
        assert "space" in str(failure.value)
        assert next(hit.text for hit in index.search("river", update=False)).endswith("river")
        connection.execute("PRAGMA max_page_count = 1000000")
        index.update()
        assert long.id in [hit.document for hit in index.search("bridge 39", update=False)]
        assert connection.execute("PRAGMA integrity_check").get == "ok"


def test_an_interrupted_update_continues(
    application: Application, embedded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vibe_llms.retrieval.meaning.BATCH", 10)
    save(application, *(f"message {number}" for number in range(25)))
    embed = WordsEmbedder.call

    async def fail(self: WordsEmbedder, request: EmbeddingRequest) -> Vectors:
        if "message 15" in request.texts:
            raise ConverseError(detail="The embedder is busy.")
        return await embed(self, request)

    monkeypatch.setattr(WordsEmbedder, "call", fail)
    with pytest.raises(ConverseError, match="busy"):
        search(application, "message")
    assert len(embedded) == 10
    monkeypatch.setattr(WordsEmbedder, "call", embed)

    assert len(search(application, "message", limit=30)) == 25
    assert len(embedded) == 25


async def test_a_cancelled_update_leaves_the_index_usable(application: Application) -> None:
    save(application, *(f"message {number}" for number in range(500)))
    async with MeaningIndex(WORDS, application=application) as index:
        task = asyncio.create_task(index.update())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await index.search("message 7", limit=1)


@pytest.mark.parametrize("damage", [b"", b"not a database at all" * 100])
def test_a_damaged_database_is_made_anew(
    application: Application, tmp_path: Path, damage: bytes
) -> None:
    save(application, "the bridge")
    search(application, "bridge")
    for file in (tmp_path / "cache" / "meaning").iterdir():
        if file.suffix == ".sqlite":
            file.write_bytes(damage)
        else:
            file.unlink()

    assert search(application, "bridge") == ["the bridge"]


def test_an_unavailable_cache_is_an_error_in_one_line(
    application: Application, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "meaning").write_text("a file where a folder belongs")

    with pytest.raises(StoreError, match=str(tmp_path / "cache")):
        search(application, "bridge")


def test_only_the_user_can_read_the_database(application: Application, tmp_path: Path) -> None:
    save(application, "a secret")
    search(application, "secret")

    for file in (tmp_path / "cache" / "meaning").iterdir():
        assert file.stat().st_mode & 0o077 == 0


def test_two_processes_may_update_at_once(application: Application) -> None:
    save(application, *(f"message {number}" for number in range(100)))

    async def update() -> int:
        async with MeaningIndex(WORDS, application=application) as index:
            await index.update()
            return await index.count()

    async def both() -> list[int]:
        return list(await asyncio.gather(update(), update()))

    assert asyncio.run(both()) == [100, 100]


def test_a_store_without_files_is_searched(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    parent = Conversation()
    parent.add_user_message("the bridge")
    parent.save(store)
    fork = parent.fork()
    fork.add_user_message("the ferry")
    fork.save(store)
    monkeypatch.setattr(type(application), "index", store.index)

    with SyncMeaningIndex(WORDS, application=application) as index:
        hits = {hit.text: (hit.document, hit.position) for hit in index.search("bridge ferry")}

    assert hits == {"the bridge": (parent.id, 0), "the ferry": (fork.id, 1)}


def test_texts_in_scripts_without_spaces_come_back_whole(application: Application) -> None:
    save(application, "今日は天気がいい")

    assert search(application, "天気") == ["今日は天気がいい"]


def test_rankings_are_joined_by_reciprocal_rank() -> None:
    scores = join_rankings([[1, 2, 3], [3, 1]])

    assert sorted(scores, key=lambda key: -scores[key]) == [1, 3, 2]


def test_files_and_folders_whose_names_are_not_utf_8(
    application: Application, tmp_path: Path
) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        folder.mkdir()
        (folder / os.fsdecode(b"caf\xe9.md")).write_text("A bridge.")
    except OSError:
        pytest.skip("this file system has no such names")
    (folder / "good.md").write_text("Another bridge.")

    assert search(application, "bridge", folders=[folder], conversations=False) == [
        "Another bridge."
    ]
    with SyncMeaningIndex(WORDS, application=application) as index:
        assert index.forget(folder) == 1


def test_a_text_without_a_direction_is_found_by_its_words(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = WordsEmbedder.call

    async def embed(self: WordsEmbedder, request: EmbeddingRequest) -> Vectors:
        vectors = await call(self, request)
        return attrs.evolve(vectors, data=bytes(len(vectors.data)))

    monkeypatch.setattr(WordsEmbedder, "call", embed)
    save(application, "A bridge.", "A train.")
    assert search(application, "bridge") == ["A bridge."]


def test_the_nearest_of_all_sources_is_first(application: Application, tmp_path: Path) -> None:
    save(application, "A bridge and many other words of no importance here.")
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("bridge")
    assert search(application, "bridge", folders=[folder])[0] == "bridge"


def test_links_are_left_out(application: Application, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (tmp_path / "secret.md").write_text("a secret bridge")
    (folder / "a.md").symlink_to(tmp_path / "secret.md")
    (folder / "b").symlink_to(tmp_path, target_is_directory=True)
    assert search(application, "bridge", folders=[folder]) == []
