"""That what was said elsewhere is read in our words, and what cannot be is told."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.stores.exports import (
    FIXTURES,
    make_chatgpt,
    make_chatgpt_node,
    make_claude,
    make_claude_message,
    write_database,
    write_zip,
)
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.exchange import exports
from vibe_llms.conversations.exchange.chatgpt import read_chatgpt
from vibe_llms.conversations.exchange.documents import survey_importers
from vibe_llms.conversations.exchange.exports import split_objects
from vibe_llms.conversations.exchange.formats import choose_importer, read_document
from vibe_llms.exceptions import CodecError, RequestError
from vibe_llms.messages.canisters import (
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    StopReason,
)
from vibe_llms.messages.contents import Citation, ImageContent, ReasoningContent, TextualContent
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.views import text_of

PICTURE = b"\x89PNG\r\n\x1a\nfake"


def read(path: Path, document: Any = None) -> list[Translation[Conversation]]:
    """Reads a file, perhaps written first, as the form for which it is taken."""
    if document is not None:
        path.write_text(json.dumps(document), encoding="utf-8")
    return list(read_document(choose_importer(survey_importers(), path), path))


def tell_said(conversation: Conversation) -> list[tuple[str, str]]:
    return [(canister.role, text_of(canister)) for canister in conversation.canisters]


def tell_reasons(found: Translation[Conversation]) -> list[str]:
    return [loss.reason for loss in found.losses]


# ChatGPT


def test_chatgpt_shows_the_path_that_was_shown_last_and_tells_of_other_branches(
    tmp_path: Path,
) -> None:
    """A question that was edited, and answers made anew, stay behind and are counted."""
    document = [
        make_chatgpt(
            make_chatgpt_node("s", "root", "system", "", "q"),
            make_chatgpt_node("q", "s", "user", "Where?", "a1", "a2"),
            make_chatgpt_node("a1", "q", "assistant", "Left."),
            make_chatgpt_node("a2", "q", "assistant", "Right.", metadata={"model_slug": "gpt-5-2"}),
            make_chatgpt_node("q0", "s", "user", "Wher?"),
            current="a2",
        )
    ]

    [found] = read(tmp_path / "conversations.json", document)

    conversation = found.value
    assert tell_said(conversation) == [("user", "Where?"), ("assistant", "Right.")]
    assert tell_reasons(found) == ["a message of a branch that is not shown"] * 2
    assert conversation.metadata.name == "A walk"
    assert conversation.metadata.created == datetime.fromtimestamp(1_700_000_000, UTC)
    answer = conversation.canisters[1]
    assert isinstance(answer, AssistantCanister)
    assert answer.origin is not None
    assert (answer.origin.provider, answer.origin.model) == ("chatgpt", "gpt-5-2")
    assert answer.timestamp == datetime.fromtimestamp(1_700_000_000.25, UTC)


def test_chatgpt_tools_are_invocations_with_their_results(tmp_path: Path) -> None:
    """What the model wrote to a tool, and what that gave, belong together; strays are material."""
    code = {"content_type": "code", "language": "python", "text": "print(6*7)"}
    output = {"content_type": "execution_output", "text": "42"}
    thoughts = {"content_type": "thoughts", "thoughts": [{"summary": "Sum", "content": "6*7"}]}
    stop = {"finish_details": {"type": "max_tokens"}}
    quote = {"content_type": "tether_quote", "text": "a page", "url": "https://example.org"}
    document = [
        make_chatgpt(
            make_chatgpt_node("q", "root", "user", "6*7?"),
            make_chatgpt_node("t", "q", "assistant", thoughts),
            make_chatgpt_node("c", "t", "assistant", code, recipient="python"),
            make_chatgpt_node("r", "c", "tool", output, name="python"),
            make_chatgpt_node("s", "r", "tool", quote, name="file_search"),
            make_chatgpt_node(
                "p", "s", "assistant", {"content_type": "reasoning_recap", "content": "8 s"}
            ),
            make_chatgpt_node("a", "p", "assistant", "42", metadata=stop),
        )
    ]

    [found] = read(tmp_path / "conversations.json", document)

    thought, call, result, stray, answer = found.value.canisters[1:]
    assert isinstance(thought.content[0], ReasoningContent)
    assert (thought.content[0].text, thought.content[0].summary) == ("6*7", ("Sum",))
    assert isinstance(call, InvocationCanister)
    assert (call.name, call.arguments, call.form) == ("python", "print(6*7)", "text")
    assert call.owner is Owner.VENDOR
    assert isinstance(result, ResultCanister)
    assert (result.invocation_id, text_of(result)) == (call.invocation_id, "42")
    assert isinstance(stray, DocumentCanister)
    assert stray.title == "file_search"
    assert isinstance(answer, AssistantCanister)
    assert answer.origin is not None
    assert answer.origin.stop_reason is StopReason.LIMIT
    assert tell_reasons(found) == ["a summary of reasoning"]


def test_chatgpt_archives_bring_their_pictures(tmp_path: Path) -> None:
    """In the archive are the bytes that the document only names; without them that is told."""
    pointer = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_01ab"}
    parts = {"content_type": "multimodal_text", "parts": [pointer, "What is it?"]}
    document = [make_chatgpt(make_chatgpt_node("q", "root", "user", parts))]
    files = {"conversations.json": document, "file_01ab-sanitized.png": PICTURE, "user.json": {}}
    archive = write_zip(tmp_path / "export.zip", files)

    [whole] = read(archive)
    [bare] = read(tmp_path / "conversations.json", document)

    picture = whole.value.canisters[0].content[0]
    assert isinstance(picture, ImageContent)
    assert (picture.data, picture.mime_type, picture.name) == (
        PICTURE,
        "image/png",
        "sanitized.png",
    )
    assert not whole.losses
    assert tell_reasons(bare) == ["a picture whose bytes are not in the export"]
    assert whole.value.id == bare.value.id


def test_chatgpt_archives_in_several_documents_are_read_in_order(tmp_path: Path) -> None:
    """Large exports come as conversations-000.json, -001.json and so on."""
    names = ["conversations-001.json", "conversations-000.json"]
    documents = {
        name: [make_chatgpt(make_chatgpt_node("q", "root", "user", name), conversation_id=name)]
        for name in names
    }

    found = read(write_zip(tmp_path / "export.zip", documents))

    assert [text_of(each.value.canisters[0]) for each in found] == sorted(names)


def test_chatgpt_keeps_what_it_remembers_draws_and_cites(tmp_path: Path) -> None:
    """Memory is an instruction; pictures of code are in its result; sources are citations."""
    memory = {"content_type": "model_editable_context", "model_set_context": "Likes the sea."}
    empty = {"content_type": "model_editable_context", "model_set_context": ""}
    photo = {"id": "file_p", "name": "p.png", "mime_type": "image/png"}
    drawn = {"messages": [{"message_type": "image", "image_url": "file-service://file-d"}]}
    output = {"content_type": "execution_output", "text": "<Figure>"}
    page = {"content_type": "sonic_webpage", "url": "https://tides.example", "text": "Noon."}
    odd = {"content_type": "weather_card", "text": "Wind"}
    source = {"title": "Tides", "url": "https://tides.example"}
    references = [{"start_idx": 5, "end_idx": 9, "items": [source, source]}, {"type": "hidden"}]
    nodes = [
        make_chatgpt_node("m", "root", "assistant", memory),
        make_chatgpt_node("e", "m", "assistant", empty),
        make_chatgpt_node("q", "e", "user", "Draw.", metadata={"attachments": [photo]}),
        make_chatgpt_node("c", "q", "assistant", "plot()", recipient="python"),
        make_chatgpt_node(
            "r", "c", "tool", output, name="python", metadata={"aggregate_result": drawn}
        ),
        make_chatgpt_node("s", "r", "assistant", "tides", recipient="web.search"),
        make_chatgpt_node("w", "s", "tool", page, name="web"),
        make_chatgpt_node("o", "w", "assistant", odd),
        make_chatgpt_node(
            "a", "o", "assistant", "Noon citeX.", metadata={"content_references": references}
        ),
    ]
    pictures = {"file-d.png": b"drawn", "file_p-p.png": b"photo"}
    archive = {"conversations.json": [make_chatgpt(*nodes)], **pictures}
    (found,) = read(write_zip(tmp_path / "export.zip", archive))

    assert tell_said(found.value) == [
        ("supervisor", "Likes the sea."),
        ("user", "Draw."),
        ("invocation", ""),
        ("result", "<Figure>"),
        ("invocation", ""),
        ("result", "Noon."),
        ("assistant", "Wind"),
        ("assistant", "Noon citeX."),
    ]
    canisters = found.value.canisters
    assert [getattr(canisters[at].content[1], "data", None) for at in (1, 3)] == [
        b"photo",
        b"drawn",
    ]
    assert canisters[7].content == (
        TextualContent(
            "Noon citeX.",
            citations=[Citation(start=5, end=9, url="https://tides.example", title="Tides")],
        ),
    )
    assert tell_reasons(found) == ["content of the kind 'weather_card' is kept as its text"]


def test_a_tree_that_goes_in_circles_comes_to_an_end(tmp_path: Path) -> None:
    """Whoever wrote the file, parents that are their own children are followed once."""
    document = [
        make_chatgpt(
            make_chatgpt_node("a", "b", "user", "A"), make_chatgpt_node("b", "a", "assistant", "B")
        )
    ]

    [found] = read(tmp_path / "conversations.json", document)

    assert [text for _, text in tell_said(found.value)] == ["A", "B"]


# Claude


def test_claude_keeps_thoughts_tools_and_what_was_attached(tmp_path: Path) -> None:
    """Blocks become what they are with us; files without bytes are told."""
    attachment = {"file_name": "plan.txt", "file_type": "text/plain", "extracted_content": "Go."}
    use = {"type": "tool_use", "id": "t1", "name": "web_search", "input": {"query": "é"}}
    piece = {"type": "knowledge", "title": "A page"}
    result = {"type": "tool_result", "tool_use_id": "t1", "name": "web_search", "content": [piece]}
    thinking = {"type": "thinking", "thinking": "Hm.", "summaries": [{"summary": "Wondering"}]}
    budget = {"type": "token_budget"}
    document = [
        make_claude(
            make_claude_message(
                "m1", "human", "Read.", attachments=[attachment], files=[{"file_name": "a.png"}]
            ),
            make_claude_message(
                "m2", "assistant", thinking, use, result, "Done.", budget, {"type": "flag"}
            ),
            model="claude-sonnet-4-6",
        )
    ]

    [found] = read(tmp_path / "conversations.json", document)

    plan, question, thought, call, outcome, answer = found.value.canisters
    assert isinstance(plan, DocumentCanister)
    assert (plan.title, text_of(plan), text_of(question)) == ("plan.txt", "Go.", "Read.")
    assert isinstance(thought.content[0], ReasoningContent)
    assert isinstance(call, InvocationCanister)
    assert (call.name, call.parse_arguments()) == ("web_search", {"query": "é"})
    assert isinstance(outcome, ResultCanister)
    assert outcome.invocation_id == "t1"
    assert isinstance(answer, AssistantCanister)
    assert answer.origin is not None
    assert (text_of(answer), answer.origin.model) == ("Done.", "claude-sonnet-4-6")
    assert len({canister.turn_id for canister in (thought, call, outcome, answer)}) == 1  # type: ignore[union-attr]
    assert tell_reasons(found) == [
        "a file or picture: its bytes are not in the export",
        "a part of a result, of the kind 'knowledge', is kept as its JSON",
        "a block of the kind 'flag' has no counterpart",
    ]


def test_claude_s_old_exports_have_texts_only_and_its_new_ones_branches(tmp_path: Path) -> None:
    """A message without blocks has its text; one that was edited away is told."""
    old = make_claude(make_claude_message("m1", "human") | {"text": "Hello"}, uuid="old")
    new = make_claude(
        make_claude_message("m1", "human", "Helo"),
        make_claude_message("m2", "human", "Hello"),
        make_claude_message("m3", "assistant", "Hi", parent_message_uuid="m2"),
    )

    first, second = read(tmp_path / "conversations.json", [old, new])

    assert tell_said(first.value) == [("user", "Hello")]
    assert tell_said(second.value) == [("user", "Hello"), ("assistant", "Hi")]
    assert tell_reasons(second) == ["a message of a branch that is not shown"]


# llm: what llm 0.27 and 0.36 have really written


@pytest.mark.parametrize("version", ["0.27", "0.36"])
def test_the_json_of_llm_is_read(version: str) -> None:
    """``llm logs --json -n 0`` of either kind of database becomes conversations."""
    found = read(FIXTURES / f"llm-{version}.json")

    _expect_llm(found)
    assert "an attachment whose bytes are not in the log" in tell_reasons(found[2])


@pytest.mark.parametrize("version", ["0.27", "0.36"])
def test_the_database_of_llm_is_read_in_both_its_forms(tmp_path: Path, version: str) -> None:
    """Rows of responses and trees of messages become the same; bytes in the file come along."""
    found = read(write_database(tmp_path / "logs.db", version))

    _expect_llm(found)
    pictures = [
        content
        for each in found
        for canister in each.value.canisters
        for content in canister.content
        if isinstance(content, ImageContent)
    ]
    lost = [reason for each in found for reason in tell_reasons(each)]
    assert [picture.data for picture in pictures] + lost
    assert all(picture.data == PICTURE for picture in pictures)


def _expect_llm(found: list[Translation[Conversation]]) -> None:
    greeting, tools, *_ = (each.value for each in found)
    assert greeting.metadata.name == "Hello there"
    assert [role for role, _ in tell_said(greeting)] == [
        "supervisor",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert [text for _, text in tell_said(greeting)][:2] == ["Be brief.", "Hello there"]
    assert greeting.canisters[0].timestamp == greeting.canisters[1].timestamp
    assert greeting.metadata.created == greeting.canisters[1].timestamp
    assert text_of(greeting.canisters[3]) == "And more é"
    origin = greeting.canisters[2].origin  # type: ignore[union-attr]
    assert origin is not None
    assert (origin.provider, origin.model) == ("llm", "echo")
    assert origin.usage is not None
    assert origin.usage.output_tokens == 14
    _, _, call, result, _ = tools.canisters
    assert isinstance(call, InvocationCanister)
    assert (call.name, call.parse_arguments()) == ("multiply", {"a": 2, "b": 3})
    assert isinstance(result, ResultCanister)
    assert (result.invocation_id, text_of(result)) == (call.invocation_id, "6")
    asked = {text_of(canister) for each in found for canister in each.value.canisters}
    assert "A fragment\n\nwith frag" in asked


def test_a_log_s_paths_are_not_followed(tmp_path: Path) -> None:
    """A log that somebody sends can name any file of ours: none is read."""
    (tmp_path / "secret.png").write_bytes(PICTURE)
    database = write_database(tmp_path / "logs.db", "0.36")
    with closing(sqlite3.connect(database)) as connection:
        path = str(tmp_path / "secret.png")
        connection.execute("update attachments set path = ?, content = null", (path,))
        connection.commit()

    found = read(database)

    assert all(
        getattr(content, "data", None) is None
        for each in found
        for canister in each.value.canisters
        for content in canister.content
    )


# What all of them share


def test_the_same_export_gives_the_same_conversation_each_time(tmp_path: Path) -> None:
    """Names are made of the service's own, so that nothing is kept twice."""
    document = [
        make_chatgpt(
            make_chatgpt_node("q", "root", "user", "Hi"),
            make_chatgpt_node("a", "q", "assistant", "Ho"),
        )
    ]

    [first], [second] = (read(tmp_path / "conversations.json", document) for _ in range(2))

    assert first.value.id == second.value.id
    assert list(first.value.canisters) == list(second.value.canisters)


def test_half_a_character_becomes_the_sign_for_it(tmp_path: Path) -> None:
    """Exports break texts in the middle of characters; no store could write that."""
    path = tmp_path / "conversations.json"
    document = [
        make_chatgpt(make_chatgpt_node("q", "root", "user", "half \ud83d, whole \U0001f600"))
    ]

    [found] = read(path, document)

    assert text_of(found.value.canisters[0]) == "half \ufffd, whole \U0001f600"


MAPPING = b'[{"mapping": {}, "id": "a"'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (MAPPING, "is truncated here. @ $[0]"),
        (MAPPING + b"},", "is truncated here. @ $[1]"),
        (MAPPING + b"}, 5]", "must begin with {, not b'5'. @ $[1]"),
        (MAPPING + b"}] x", "not b'x'"),
        (MAPPING + b', "title": tru}]', "Invalid JSON"),
        (MAPPING + b', "title": "\xe4"}]', "Invalid JSON"),
        (b'[{"mapping": {}}, {"mapping": 5}]', "@ $[1].mapping"),
        (b'[{"mapping": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}]", "too deeply"),
        (b'[{"chat_messages": {}}]', "@ $[0].chat_messages"),
        (b'[{"chat_messages": [5]}]', "@ $[0].chat_messages[0]"),
        (b'[{"conversation_model": "echo"}]', "@ $[0]"),
    ],
)
def test_what_is_broken_is_told_with_file_and_place(
    tmp_path: Path, data: bytes, words: str
) -> None:
    """A mistake names the file, the place and the rule."""
    path = tmp_path / "conversations.json"
    path.write_bytes(data)

    with pytest.raises(CodecError) as caught:
        read(path)

    assert str(path) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("place", [10, 80])
def test_a_damaged_archive_is_told_as_that(tmp_path: Path, place: int) -> None:
    """Whether its table or its data are hit, the file is named, and a way out."""
    path = write_zip(tmp_path / "cut.zip", {"conversations.json": [make_claude()] * 99})
    data = bytearray(path.read_bytes())
    data[place : place + 40] = bytes(40)
    path.write_bytes(data)

    with pytest.raises(CodecError, match=r"cut\.zip: Cannot read the file: .*archive") as caught:
        read(path)

    assert "Unpack it" in caught.value.remedy


def test_a_view_of_a_stranger_s_database_is_not_asked(tmp_path: Path) -> None:
    """A view can have rows without end; `llm` has only tables there."""
    path = tmp_path / "logs.db"
    endless = "with recursive n(i) as (select 1 union all select i from n) select * from n"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"create view responses as {endless}")
        connection.commit()

    with pytest.raises(RequestError, match="not in a known format"):
        read(path)


def test_a_foreign_archive_is_told(tmp_path: Path) -> None:
    """An archive with other things is told for what it is."""
    foreign = write_zip(tmp_path / "foreign.zip", {"photo.png": PICTURE})

    with pytest.raises(RequestError, match=r"not in a known format"):
        read(foreign)
    with pytest.raises(CodecError, match=r"conversations\.json is missing"):
        list(read_chatgpt(foreign))


def test_one_conversation_may_be_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit is refused by the name of its limit before it fills the memory."""
    monkeypatch.setattr(exports, "CONVERSATION_BYTES", 1_000)
    long = make_chatgpt(make_chatgpt_node("q", "root", "user", "x" * 2_000))
    small = make_chatgpt(make_chatgpt_node("q", "root", "user", "x"))

    with pytest.raises(CodecError, match=r"1,000 bytes \(CONVERSATION_BYTES\). @ \$\[1\]"):
        list(split_objects([json.dumps([small, long])[:-9].encode()]))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    tables=st.lists(st.dictionaries(st.text(), values, max_size=3), max_size=4),
    size=st.integers(1, 40),
    is_ascii=st.booleans(),
    indent=st.none() | st.just(2),
)
def test_documents_are_split_where_their_objects_end(
    tables: list[dict[str, Any]], size: int, is_ascii: bool, indent: int | None
) -> None:
    """However a document is written and however it arrives, its pieces are its objects."""
    text = json.dumps(tables, ensure_ascii=is_ascii, indent=indent)
    data = text.encode("utf-8", "surrogatepass")
    chunks = [data[start : start + size] for start in range(0, len(data), size)]

    pieces = list(split_objects(chunks))

    assert [json.loads(piece.decode("utf-8", "surrogatepass")) for _, piece in pieces] == tables
    assert [place for place, _ in pieces] == [f"$[{index}]" for index in range(len(tables))]


FIELDS = st.sampled_from(["author", "content", "metadata", "create_time"])


@given(table=st.dictionaries(FIELDS, values))
def test_a_message_of_any_shape_is_read_or_told(table: dict[str, Any]) -> None:
    """Whatever a service puts where something else is expected, the others are still read."""
    node = make_chatgpt_node("odd", "root", "user", "")
    node["message"] |= table
    document = [make_chatgpt(node, make_chatgpt_node("q", "odd", "user", "Hi"))]

    with TemporaryDirectory() as folder:
        [found] = read(Path(folder) / "conversations.json", document)

    assert tell_said(found.value)[-1] == ("user", "Hi")


def test_an_archive_that_is_encrypted_is_told(tmp_path: Path) -> None:
    """Nobody is asked for a password; the way out is named."""
    path = write_zip(tmp_path / "export.zip", {"conversations.json": [make_claude()]})
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        start = archive.start_dir
    data[6] |= 1
    data[start + 8] |= 1
    path.write_bytes(data)

    with pytest.raises(CodecError, match="Unpack it"):
        list(read_chatgpt(path))
