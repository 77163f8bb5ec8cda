"""What the index finds and lists, and that it keeps up with the files."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.index import ConversationIndex
from vibe_llms.conversations.lookup import find_newest
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.exceptions import LimitError, UnknownNameError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AudioContent,
    FileContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path)


@pytest.fixture
def index(tmp_path: Path) -> ConversationIndex:
    return ConversationIndex(tmp_path / "conversations", tmp_path / "index.sqlite")


def say(store: DirectoryStore, identity: str, *canisters: AnyCanister | str) -> None:
    """Adds canisters to a conversation, which is begun when there is none; texts are the user's."""
    if identity not in set(store.survey()):
        store.create(identity, ConversationMetadata())
    store.append(identity, [UserCanister(c) if isinstance(c, str) else c for c in canisters])


def found(index: ConversationIndex, query: str, **restrictions: str) -> set[tuple[str, int]]:
    return {(hit.id, hit.index) for hit in index.search(query, **restrictions)}  # type: ignore[arg-type]


def test_lists_nothing_and_makes_nothing_where_nothing_was_said(tmp_path: Path) -> None:
    """A list of a store that does not exist is empty and leaves nothing behind."""
    index = ConversationIndex(tmp_path / "conversations", tmp_path / "index.sqlite")

    assert (index.survey(), index.search("word"), list(tmp_path.iterdir())) == ([], [], [])


def test_lists_what_is_known_of_a_conversation(
    store: DirectoryStore, index: ConversationIndex
) -> None:
    """A row says what a person needs to recognize a conversation."""
    store.create("walk", ConversationMetadata(name="A walk", tags=("dog", "park"), model="a:b"))
    say(store, "walk", "Where   shall\nwe go?", AssistantCanister("Home."))

    (row,) = index.survey()

    assert (row.id, row.name, row.canisters, row.model) == ("walk", "A walk", 2, "a:b")
    assert (row.first_words, row.tags, row.parent) == ("Where shall we go?", ("dog", "park"), None)
    assert row.updated == store.read_metadata("walk").updated
    assert row.created == store.read_metadata("walk").created


def test_describes_single_conversations_and_leaves_out_unknown_ones(
    store: DirectoryStore, index: ConversationIndex
) -> None:
    for identity in ("one", "two", "part"):
        tags = ["of:one"] if identity == "part" else []
        store.create(identity, ConversationMetadata(name=identity, tags=tags))
        store.append(identity, [UserCanister(f"Words of {identity}")])
    for described in (index, store.index):
        rows = described.describe(["two", "missing", "part"])
        assert [(row.id, row.first_words) for row in rows] == [
            ("two", "Words of two"),
            ("part", "Words of part"),
        ]
    store.update_metadata("two", name="Second")
    assert [row.name for row in index.describe(["two"])] == ["Second"]


def test_tags_are_what_they_are_whatever_is_in_them(
    store: DirectoryStore, index: ConversationIndex
) -> None:
    """Line ends, quotes and the like part no tags."""
    tags = ("two\nlines", 'a "quote"', "\t", "東京", "x,y")
    store.create("walk", ConversationMetadata(tags=tags))
    say(store, "walk", "Where?")

    (row,) = index.survey()

    assert row.tags == store.read_metadata("walk").tags == tags


def test_lists_the_model_that_answered_last_where_the_metadata_name_none(
    store: DirectoryStore, index: ConversationIndex
) -> None:
    """The model of a row comes from the last answer if nobody has written it down."""
    say(
        store,
        "one",
        AssistantCanister("a", origin=Origin(provider="p", model="first")),
        AssistantCanister("b", origin=Origin(provider="p", model="second")),
    )

    assert index.survey()[0].model == "p:second"


def test_lists_a_conversation_in_which_nothing_was_said_yet(
    store: DirectoryStore, index: ConversationIndex
) -> None:
    """A conversation that was only begun is listed with no canisters."""
    store.create("empty", ConversationMetadata(name="Empty"))

    (row,) = index.survey()

    assert (row.id, row.name, row.canisters, row.first_words) == ("empty", "Empty", 0, "")
    assert row.updated == row.created


def test_lists_the_newest_first_and_no_more_than_asked_for(
    store: DirectoryStore, index: ConversationIndex, tmp_path: Path
) -> None:
    """Where something was said last comes first."""
    for moment, identity in enumerate(["b", "a", "c"], start=4_000_000_000):
        say(store, identity, "Hello")
        os.utime(store.layout.messages(identity), (moment, moment))

    assert [row.id for row in index.survey()] == ["c", "a", "b"]
    assert [row.id for row in index.survey(limit=2)] == ["c", "a"]


def test_finds_words_in_every_kind_of_content(
    store: DirectoryStore, index: ConversationIndex
) -> None:
    """Everything that was said can be searched, whoever said it and however."""
    say(
        store,
        "all",
        UserCanister(
            (TextualContent("alpha"), FileContent(url="u", mime_type="a/b", title="beta"))
        ),
        UserCanister(AudioContent(data=b"x", mime_type="audio/wav", transcript="gamma")),
        AssistantCanister((ReasoningContent(text="delta", summary=("epsilon",)),)),
        AssistantCanister(RefusalContent("zeta")),
        InvocationCanister(invocation_id="1", name="eta", arguments='{"city": "Z\\u00fcrich"}'),
        ResultCanister("theta", invocation_id="1"),
    )

    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "city", "Zürich", "theta"]
    places = [found(index, word) for word in words]

    assert places == [{("all", at)} for at in (0, 0, 1, 2, 2, 3, 4, 4, 4, 5)]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The quick brown fox", "QUICK fox"),
        ("The quick brown fox", '"quick brown"'),
        ("The quick brown fox", "qui*"),
        ("Un café à Orléans", "cafe orleans"),
        ("Un cafe\u0301", "café"),
        ("snake_case and kebab-case", "kebab-case snake_case"),
        ("今日は天気がいいですね", "天気"),
        ("今日は天気がいいですね", "気"),
        ("我们使用Python写代码", "python"),
        ("我们使用Python写代码", "写代码"),
        ("한국어를 배워요", "한국어"),
        ("ประเทศไทยสวยงาม", "ไทย"),
        ("हिन्दी भाषा", "हिन्दी"),
        ("привет мир", "ПРИВЕТ"),
        ("well done🎉🚀", "🎉"),
        ("well done🎉🚀", "done"),
        ("I ❤️ it", "❤"),
        ("it is 20°C", "20"),
    ],
)
def test_finds_words_of_any_script(
    store: DirectoryStore, index: ConversationIndex, text: str, query: str
) -> None:
    """Words are found in scripts with and without spaces; case and accents do not matter."""
    say(store, "one", text)
    say(store, "other", "something else entirely")

    assert found(index, query) == {("one", 0)}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("brown quick", '"quick brown"'),
        ("quicksand", "quick"),
        ("quick", "quick brown"),
        ("天地元気", "天気"),
        ("anything", ""),
        ("anything", "***"),
        ("anything", '"'),
    ],
)
def test_finds_nothing_where_the_words_are_not(
    store: DirectoryStore, index: ConversationIndex, text: str, query: str
) -> None:
    """All words have to be there, phrases in their order, and words whole unless starred."""
    say(store, "one", text)

    assert found(index, query) == set()


def test_marks_the_words_in_a_snippet(store: DirectoryStore, index: ConversationIndex) -> None:
    """A hit shows the text around the words and says where they stand in it."""
    say(store, "one", "before " * 100 + "明日の 天気\nis fine" + " after" * 100)

    (hit,) = index.search("天気 fine")

    assert [hit.snippet[start:end] for start, end in hit.marks] == ["天気", "fine"]
    assert "明日の 天気 is fine after" in hit.snippet
    assert len(hit.snippet) < 300


def test_restricts_a_search_to_a_role(store: DirectoryStore, index: ConversationIndex) -> None:
    """A search may look at what one side has said."""
    say(store, "one", "apple user", AssistantCanister("apple"))

    assert found(index, "apple", role="user") == {("one", 0)}
    assert found(index, "apple", role="assistant") == {("one", 1)}
    assert found(index, "user assistant") == set()
    with pytest.raises(UnknownNameError, match="assistant"):
        index.search("apple", role="robot")


def test_ranks_the_better_match_first(store: DirectoryStore, index: ConversationIndex) -> None:
    """A short text that is about the word comes before a long one that mentions it."""
    say(store, "one", "cat " + "dog " * 50, "cat cat", "dog " * 50)

    assert [hit.index for hit in index.search("cat")] == [1, 0]
    assert [hit.index for hit in index.search("cat", limit=1)] == [1]


def test_ranks_only_the_newest_of_very_many(
    store: DirectoryStore,
    index: ConversationIndex,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where more match than are compared, those in older conversations stay out."""
    from vibe_llms.conversations.index import questions

    monkeypatch.setattr(questions, "RANKED_LIMIT", 2)
    for moment, identity in enumerate(["b", "c", "a"], start=4_000_000_000):
        say(store, identity, "word")
        os.utime(store.layout.messages(identity), (moment, moment))

    assert found(index, "word") == {("a", 0), ("c", 0)}


def test_refuses_a_query_of_too_many_words(index: ConversationIndex) -> None:
    """A whole page that was pasted as a query is refused with the limit's name."""
    with pytest.raises(LimitError, match="at most 64 words"):
        index.search("word " * 65)


def test_finds_what_a_fork_shares_in_the_parent_only(
    store: DirectoryStore, index: ConversationIndex
) -> None:
    """What was said before the fork point is found once; places count what is inherited."""
    say(store, "parent", "shared words", AssistantCanister("first answer"))
    store.fork("parent", child="whole")
    store.fork("parent", from_index=1, child="part")
    say(store, "part", AssistantCanister("second answer"))
    say(store, "whole", "more")
    say(store, "parent", "afterwards")

    rows = {row.id: row for row in index.survey()}

    assert found(index, "shared") == {("parent", 0)}
    assert found(index, "answer") == {("parent", 1), ("part", 1)}
    assert found(index, "more") == {("whole", 2)}
    assert {i: row.canisters for i, row in rows.items()} == {"parent": 3, "whole": 3, "part": 2}
    assert {row.first_words for row in rows.values()} == {"shared words"}
    assert (rows["parent"].parent, rows["part"].parent) == (None, "parent")


def test_finds_in_its_forks_what_a_deleted_parent_leaves_them(
    store: DirectoryStore, index: ConversationIndex
) -> None:
    """A fork that receives its parent's part counts and finds it as its own; so do its forks."""
    say(store, "parent", "shared words")
    store.fork("parent", child="child")
    say(store, "child", "own words")
    store.fork("child", child="grandchild")
    say(store, "child", "later words")
    say(store, "grandchild", "last words")
    assert found(index, "shared") == {("parent", 0)}

    store.delete("parent")

    assert found(index, "words") == {
        ("child", 0),
        ("child", 1),
        ("child", 2),
        ("grandchild", 2),
    }
    rows = {row.id: (row.canisters, row.first_words) for row in index.survey()}
    assert rows == {"child": (3, "shared words"), "grandchild": (3, "shared words")}


def test_notices_another_name_and_other_tags(
    store: DirectoryStore, index: ConversationIndex
) -> None:
    """Metadata that change by themselves are seen in lists and in hits."""
    say(store, "one", "hello")
    assert index.survey()[0].name is None

    store.update_metadata("one", name="Greetings", tags=("x",))
    hit = index.search("hello")[0]
    store.update_metadata("one", name="Salutations")
    row = index.survey()[0]

    assert (hit.name, row.name, row.tags) == ("Greetings", "Salutations", ("x",))


def test_reads_only_what_was_appended(
    store: DirectoryStore,
    index: ConversationIndex,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A longer file costs the reading of its new lines; an unchanged one, of nothing."""
    from vibe_llms.conversations.index import synopses, texts

    say(store, "one", "first", "second")
    say(store, "two", "other")
    index.search("word")
    lines: list[bytes] = []
    read: list[int] = []
    original, original_read = texts.read_entry, synopses.read_at
    monkeypatch.setattr(texts, "read_entry", lambda line: lines.append(line) or original(line))
    monkeypatch.setattr(synopses, "read_at", lambda *a: read.append(a[2]) or original_read(*a))

    former = Path(store.layout.messages("one")).stat().st_size
    say(store, "one", "third")
    index.survey()
    index.survey()
    added = Path(store.layout.messages("one")).stat().st_size - former

    assert lines == []
    assert added in read
    assert found(index, "third") == {("one", 2)}
    assert found(index, "third") == {("one", 2)}
    assert [json.loads(line)["content"][0]["text"] for line in lines] == ["third"]


def test_notices_a_file_that_was_rewritten_in_its_place(
    store: DirectoryStore, index: ConversationIndex, tmp_path: Path
) -> None:
    """A file that is longer, but no longer begins with what was indexed, is read again whole."""
    say(store, "one", "old words")
    say(store, "two", "new words, of which there are more than of the old", "and some more")
    assert found(index, "old") == {("one", 0), ("two", 0)}

    data = Path(store.layout.messages("two")).read_bytes()
    Path(store.layout.messages("one")).write_bytes(data)

    assert found(index, "old") == {("one", 0), ("two", 0)}
    assert found(index, "some more") == {("one", 1), ("two", 1)}
    assert found(index, "new") == {("one", 0), ("two", 0)}


def test_leaves_a_torn_line_for_later(
    store: DirectoryStore, index: ConversationIndex, tmp_path: Path
) -> None:
    """A line that a crash has torn is not indexed; what follows once it was set aside is."""
    say(store, "one", "first")
    with Path(store.layout.messages("one")).open("ab") as file:
        file.write(b'{"role":"user","content":[{"type":"text","text":"torn')
    assert found(index, "first") == {("one", 0)}
    assert found(index, "torn") == set()

    say(store, "one", "second")

    assert found(index, "second") == {("one", 1)}


@pytest.mark.parametrize("missing", [1, 2, 60])
def test_indexes_a_line_when_it_is_whole(
    store: DirectoryStore, index: ConversationIndex, missing: int
) -> None:
    """Who asks while a line is being written finds it the next time, and once."""
    say(store, "one", "first", "second")
    path = Path(store.layout.messages("one"))
    whole = path.read_bytes()
    os.truncate(path, len(whole) - missing)
    assert found(index, "second") == set()

    with path.open("ab") as file:
        file.write(whole[-missing:])

    assert found(index, "second") == {("one", 1)}
    assert [row.canisters for row in index.survey()] == [2]


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b"12",
        b'{"role": 3, "content": "x", "timestamp": 7, "origin": []}',
        b'{"role": "user", "content": [7, {"text": 9}], "timestamp": "yesterday"}',
        b'{"role": "user", "content": [{"text": "\\ud800 half"}]}',
        b'{"role": "user", "content": [], "timestamp": "9999-01-01T00:00:00Z"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_survives_lines_that_make_no_sense(
    store: DirectoryStore, index: ConversationIndex, tmp_path: Path, line: bytes
) -> None:
    """Damage is `vibe verify`'s business; lists and searches go on."""
    say(store, "one", "first")
    with Path(store.layout.messages("one")).open("ab") as file:
        file.write(line + b"\n")
    (tmp_path / "conversations/two").mkdir()
    (tmp_path / "conversations/two/metadata.toml").write_bytes(b"this is = not TOML\xff")
    (tmp_path / "conversations/stray.txt").write_bytes(b"")

    assert found(index, "first") == {("one", 0)}
    assert {row.id for row in index.survey()} == {"one", "two"}


def test_survives_arguments_however_deeply_a_model_nests_them(
    store: DirectoryStore, index: ConversationIndex
) -> None:
    """What a model sends as arguments cannot take lists and searches away from everybody."""
    deep = InvocationCanister(
        invocation_id="1", name="dig", arguments="[" * 100_000 + "\\u00e9 shovel"
    )
    say(store, "one", deep)

    assert found(index, "shovel") == {("one", 0)}


@pytest.mark.parametrize("moment", [-1, 1 << 63, 400_000_000_000 * 10**9])
def test_survives_files_from_other_ages(
    store: DirectoryStore, index: ConversationIndex, moment: int
) -> None:
    """A file system may hold times and numbers of files that SQLite and calendars cannot."""
    say(store, "one", "first")
    try:
        os.utime(store.layout.messages("one"), ns=(moment, moment))
    except OSError:  # this file system knows no such time, and cannot bring us into trouble
        os.utime(store.layout.messages("one"), ns=(1, 1))

    assert [row.id for row in index.survey()] == ["one"]
    assert find_newest(store) == "one"


def test_survives_numbers_of_files_that_are_larger_than_sqlites(
    store: DirectoryStore, index: ConversationIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems use all 64 bits of an inode's number."""
    say(store, "one", "first")
    _number_files_from(1 << 63, monkeypatch)

    assert found(index, "first") == {("one", 0)}
    say(store, "one", "second")
    assert found(index, "second") == {("one", 1)}


def _number_files_from(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stat", "fstat"):
        original = getattr(os, name)

        def measure(*args: object, original=original, **kwargs: object) -> os.stat_result:
            status = original(*args, **kwargs)
            return SimpleNamespace(  # type: ignore[return-value]
                st_ino=status.st_ino + first,
                st_size=status.st_size,
                st_mtime_ns=status.st_mtime_ns,
                st_ctime_ns=status.st_ctime_ns,
                st_mode=status.st_mode,
                st_dev=status.st_dev,
            )

        monkeypatch.setattr(f"os.{name}", measure)


@pytest.mark.parametrize("name", [b"one (copy)", b"one\xff", b"One"])
def test_leaves_out_folders_that_the_store_does_not_read(
    store: DirectoryStore, index: ConversationIndex, tmp_path: Path, name: bytes
) -> None:
    """A copy which somebody made of a folder is not listed: no command would find it."""
    say(store, "one", "first")
    folder = os.fsencode(store.layout.folder("one"))
    for there in (
        os.fsencode(store.layout.root),
        os.fsencode(Path(store.layout.folder("one")).parent),
    ):
        shutil.copytree(folder, there + b"/" + name)

    assert [row.id for row in index.survey()] == ["one"]
    assert found(index, "first") == {("one", 0)}
