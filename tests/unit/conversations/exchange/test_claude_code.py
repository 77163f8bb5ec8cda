"""Sessions of Claude Code."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.stores.sessions import (
    PNG,
    SESSION,
    answer_claude,
    ask_claude,
    make_claude_line,
    write_lines,
)
from vibe_llms.conversations import MemoryStore
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.exchange import claude_code, import_conversations
from vibe_llms.exceptions import CodecError
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    StopReason,
)
from vibe_llms.messages.contents import ImageContent, NativeContent, ReasoningContent
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.views import usage_of

THINKING = {"type": "thinking", "thinking": "Files?", "signature": "sig"}
LIST = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
READ = {"type": "tool_use", "id": "toolu_2", "name": "Read", "input": {"file_path": "a.py"}}


def give(call: str, content: object, **fields: object) -> list[dict[str, object]]:
    return [{"tool_use_id": call, "type": "tool_result", "content": content, **fields}]


SIMPLE = [
    {"type": "file-history-snapshot", "messageId": "u", "snapshot": {}, "isSnapshotUpdate": False},
    {"type": "summary", "summary": "Old title", "leafUuid": "aa"},
    {"type": "ai-title", "aiTitle": "Files of a shop", "sessionId": SESSION},
    ask_claude("u", None, "What is here?"),
    answer_claude("a", "u", THINKING),
    answer_claude("aa", "a", {"type": "text", "text": "I look."}),
    answer_claude("aaa", "aa", LIST),
    answer_claude("aaaa", "aaa", READ, stop_reason="tool_use"),
    ask_claude("r", "aaa", give("toolu_1", "a.py"), toolUseResult={"stdout": "a.py"}),
    ask_claude("rr", "aaaa", give("toolu_2", [{"type": "text", "text": "gone"}], is_error=True)),
    answer_claude(
        "b", "rr", {"type": "text", "text": "One file."}, answer="msg_2", stop_reason="end_turn"
    ),
]


def read(path: Path) -> list[Translation[Conversation]]:
    return list(import_conversations(path))


def tell_reasons(found: Translation[Conversation]) -> list[str]:
    return [loss.reason for loss in found.losses]


def test_a_session_with_parallel_calls(tmp_path: Path) -> None:
    """The results are on two branches, and both are kept."""
    (found,) = read(write_lines(tmp_path / f"{SESSION}.jsonl", *SIMPLE))
    canisters = found.value.canisters
    assert [each.role for each in canisters] == [
        "user", "assistant", "assistant", "invocation", "invocation", "result", "result",
        "assistant",
    ]  # fmt: skip
    assert found.value.metadata.name == "Files of a shop"
    assert found.value.metadata.created == datetime(2026, 2, 18, 10, 0, 1, tzinfo=UTC)
    assert canisters[1].content == (ReasoningContent(text="Files?", signature="sig"),)
    call, result, failed = canisters[3], canisters[5], canisters[6]
    assert isinstance(call, InvocationCanister)
    assert (call.name, call.arguments, call.owner) == ("Bash", '{"command":"ls"}', Owner.OURS)
    assert isinstance(result, ResultCanister)
    assert (result.text, result.name, result.invocation_id) == ("a.py", "Bash", "toolu_1")
    assert isinstance(failed, ResultCanister)
    assert (failed.text, failed.is_error) == ("gone", True)
    first, second = canisters[1].origin, canisters[7].origin
    assert first is not None
    assert second is not None
    assert (first.provider, first.protocol, first.response_id) == ("anthropic", "messages", "msg_1")
    assert [first.stop_reason, second.stop_reason] == [StopReason.INVOCATION, StopReason.ANSWERED]
    assert len({each.turn_id for each in canisters[1:5]}) == 1
    assert canisters[7].turn_id != canisters[1].turn_id
    usage = usage_of(canisters)
    assert usage is not None
    assert (usage.cache_write_tokens, usage.cache_write_long_tokens) == (120, 80)
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (8, 4000, 18)
    assert tell_reasons(found) == [
        "a line of the kind 'file-history-snapshot' is not a message",
        "the structured form of a result; its text is kept",
    ]


def test_a_session_that_grows_keeps_its_ids(tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    (before,) = read(write_lines(path, *SIMPLE))
    (after,) = read(write_lines(path, *SIMPLE, ask_claude("v", "b", "Thanks")))
    ids = [each.id for each in before.value.canisters]
    assert [each.id for each in after.value.canisters][:-1] == ids
    assert after.value.id == before.value.id


def test_an_edited_question_leaves_its_branch(tmp_path: Path) -> None:
    (found,) = read(
        write_lines(
            tmp_path / "s.jsonl",
            ask_claude("u", None, "one"),
            answer_claude("a", "u", {"type": "text", "text": "1"}, answer="m1"),
            ask_claude("v", "a", "two"),
            answer_claude("b", "v", {"type": "text", "text": "2"}, answer="m2"),
            ask_claude("w", "a", "zwei"),
        )
    )
    assert [each.text for each in found.value.canisters] == ["one", "1", "zwei"]
    assert tell_reasons(found) == ["a message on a branch other than the last one"] * 2


def test_a_compaction_keeps_the_messages_before(tmp_path: Path) -> None:
    boundary = make_claude_line(
        "system", "c", None, subtype="compact_boundary", logicalParentUuid="b", isMeta=False
    )
    summary = ask_claude("s", "c", "This session continues …", isCompactSummary=True)
    (found,) = read(write_lines(tmp_path / "s.jsonl", *SIMPLE, boundary, summary))
    last = found.value.canisters[-1]
    assert (last.role, last.text) == ("document", "This session continues …")
    assert len(found.value) == 9


def test_a_summary_names_only_its_own_session(tmp_path: Path) -> None:
    """Some versions write the summaries of all sessions into each new file."""
    other = {"type": "summary", "summary": "Taxes", "leafUuid": "of-another-file"}
    own = {"type": "summary", "summary": "Files", "leafUuid": "b"}
    lines = [line for line in SIMPLE if line["type"] != "ai-title"]
    (named,) = read(write_lines(tmp_path / "s.jsonl", *lines, own, other))
    assert named.value.metadata.name == "Files"
    (unnamed,) = read(write_lines(tmp_path / "t.jsonl", other, *lines[2:]))
    assert unnamed.value.metadata.name is None
    assert tell_reasons(unnamed)[0] == "a summary of another session"


def queue(operation: str, content: object = None, **fields: object) -> dict[str, object]:
    """Return a line about the queue of messages that wait for the model."""
    line = {"type": "queue-operation", "operation": operation, "sessionId": SESSION, **fields}
    return line if content is None else {**line, "content": content}


def test_a_message_that_is_stored_only_when_it_is_queued(tmp_path: Path) -> None:
    """Versions around 2.1.50 remove it from the queue without its text."""
    lines = [
        queue("enqueue", "What is here?"),
        queue("dequeue"),
        *SIMPLE[3:],
        queue("enqueue", "Taken back."),
        queue("enqueue", "As well."),
        queue("popAll", "Taken back."),
        queue("enqueue", "Sent alone."),
        queue("enqueue", "Shorter."),
        queue("enqueue", "And in German."),
        ask_claude("v", "b", "Sent alone."),
        queue("remove"),
        queue("remove"),
        queue("remove"),
    ]
    (found,) = read(write_lines(tmp_path / "s.jsonl", *lines))
    assert [(each.role, each.text) for each in found.value.canisters[8:]] == [
        ("user", "Sent alone."),
        ("user", "Shorter."),
        ("user", "And in German."),
    ]


def test_a_message_that_was_queued_on_a_branch_that_was_left(tmp_path: Path) -> None:
    lines = [
        SIMPLE[3],
        answer_claude("a", "u", {"type": "text", "text": "One."}),
        ask_claude("v", "a", "And two?"),
        make_claude_line("system", "x", "v", subtype="local_command", content="2"),
        queue("enqueue", "Or three?"),
        queue("remove"),
        ask_claude("w", "a", "Thanks."),
    ]
    (found,) = read(write_lines(tmp_path / "s.jsonl", *lines))
    assert [each.text for each in found.value.canisters] == ["What is here?", "One.", "Thanks."]
    assert tell_reasons(found).count("a message on a branch other than the last one") == 3


def test_a_message_that_was_queued_is_a_question(tmp_path: Path) -> None:
    """Newer versions attach it, older ones only remove it from the queue; nothing is doubled."""
    note = "<task-notification>\n<status>completed</status>\n</task-notification>"
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PNG},
    }

    def attach(uuid: str, parent: str, prompt: object, **fields: object) -> dict[str, object]:
        attachment = {"type": "queued_command", "prompt": prompt, **fields}
        return make_claude_line("attachment", uuid, parent, attachment=attachment)

    with_picture = [{"type": "text", "text": "And this?"}, picture]
    lines = [
        *SIMPLE,
        queue("enqueue", "Shorter."),
        queue("remove", "Shorter.", reason="absorbed_mid_turn"),
        attach("q", "b", "Shorter.", commandMode="prompt"),
        attach("qq", "q", with_picture, commandMode="prompt", origin={"kind": "human"}),
        attach("qqq", "qq", note, commandMode="task-notification"),
        attach("qqqq", "qqq", "Ready.", origin={"kind": "peer"}),
        queue("remove", "In German.", reason="cancelled"),
        queue("enqueue", "In French."),
        queue("remove", "In French."),
        queue("remove", [{"type": "text", "text": f"{note} 2"}]),
        queue("remove", "Shorter."),
    ]
    (found,) = read(write_lines(tmp_path / "s.jsonl", *lines))
    added = found.value.canisters[8:]
    assert [(each.role, each.text) for each in added] == [
        ("user", "Shorter."),
        ("user", "And this?"),
        ("document", note),
        ("document", "Ready."),
        ("user", "In French."),
        ("document", f"{note} 2"),
        ("user", "Shorter."),
    ]
    assert isinstance(added[1].content[1], ImageContent)
    queued = "a line of the kind 'queue-operation' is not a message"
    assert tell_reasons(found).count(queued) == 4


def test_what_commands_print_is_not_a_question(tmp_path: Path) -> None:
    printed = "<local-command-stdout>Total cost: 0</local-command-stdout>"
    system = {"subtype": "local_command", "content": printed, "isMeta": False}
    lines = [
        *SIMPLE,
        ask_claude("c", "b", "<command-name>/cost</command-name>"),
        make_claude_line("system", "cc", "c", **system),
        ask_claude("ccc", "cc", "<bash-input>ls</bash-input>"),
        ask_claude("d", "ccc", "<bash-stdout>a.py</bash-stdout><bash-stderr></bash-stderr>"),
        make_claude_line("system", "dd", "d", subtype="turn_duration", durationMs=9),
    ]
    (found,) = read(write_lines(tmp_path / "s.jsonl", *lines))
    assert [each.role for each in found.value.canisters[8:]] == [
        "user", "document", "user", "document"
    ]  # fmt: skip
    assert found.value.canisters[9].text == printed
    assert tell_reasons(found)[-1] == "a line of the kind 'system/turn_duration' is not a message"


def test_files_that_a_question_mentions(tmp_path: Path) -> None:
    def attach(uuid: str, parent: str, kind: str, **file: object) -> dict[str, object]:
        content = {"type": kind, "file": file}
        attachment = {"type": "file", "filename": "/srv/shop/a", "content": content}
        return make_claude_line("attachment", uuid, parent, attachment=attachment)

    lines = [
        SIMPLE[3],
        attach("f", "u", "text", filePath="/srv/shop/a", content="import b"),
        attach("ff", "f", "image", filePath="/srv/shop/a.png", base64=PNG, type="image/png"),
        attach("fff", "ff", "pdf", filePath="/srv/shop/a.pdf", base64=PNG),
        attach("ffff", "fff", "notebook", filePath="/srv/shop/a.ipynb", cells=[]),
    ]
    (found,) = read(write_lines(tmp_path / "s.jsonl", *lines))
    text, image, pdf, notebook = found.value.canisters[1:]
    assert (text.text, getattr(text, "title", "")) == ("import b", "/srv/shop/a")
    assert isinstance(image.content[0], ImageContent)
    assert image.content[0].name == "a.png"
    assert getattr(pdf.content[0], "mime_type", "") == "application/pdf"
    assert '"cells":[]' in notebook.text
    assert tell_reasons(found) == ["an attachment of the kind 'file' is kept as JSON"]


def test_parallel_work_is_not_a_branch_that_was_left(tmp_path: Path) -> None:
    """The model goes on after a call; its late result is answered on a branch of its own."""
    lines = [
        SIMPLE[3],
        answer_claude("a", "u", LIST),
        ask_claude("r", "a", give("toolu_1", "a.py")),
        make_claude_line("attachment", "h", "r", attachment={"type": "hook_success"}),
        answer_claude("b", "r", {"type": "text", "text": "Late."}, answer="msg_2"),
        answer_claude("aa", "a", {"type": "text", "text": "I go on."}, answer="msg_3"),
        answer_claude("aaa", "aa", READ, answer="msg_3"),
        ask_claude("rr", "aaa", give("toolu_2", "gone")),
    ]
    (found,) = read(write_lines(tmp_path / "s.jsonl", *lines))
    assert [each.text for each in found.value.canisters if each.role == "assistant"] == [
        "Late.", "I go on."
    ]  # fmt: skip
    assert tell_reasons(found) == ["an attachment of the kind 'hook_success' is kept as JSON"]


def test_going_back_after_a_broken_answer_leaves_it(tmp_path: Path) -> None:
    lines = [
        SIMPLE[3],
        answer_claude("a", "u", {"type": "text", "text": "One."}, answer="msg_1"),
        answer_claude("aa", "a", {"type": "text", "text": "Two."}, answer="msg_2"),
        ask_claude("v", "a", "Again."),
    ]
    (found,) = read(write_lines(tmp_path / "s.jsonl", *lines))
    assert [each.text for each in found.value.canisters] == ["What is here?", "One.", "Again."]
    assert tell_reasons(found) == ["a message on a branch other than the last one"]


def test_a_line_without_a_parent_does_not_hide_the_lines_before(tmp_path: Path) -> None:
    """Commands and older compactions have none; a question without one begins anew."""
    command = ask_claude("c", None, "<command-name>/memory</command-name>")
    summary = ask_claude("s", None, "This session continues …", isCompactSummary=True)
    question = ask_claude("v", "s", "And now?")
    (found,) = read(write_lines(tmp_path / "s.jsonl", *SIMPLE, command, summary, question))
    assert len(found.value) == 11
    (fresh,) = read(write_lines(tmp_path / "t.jsonl", *SIMPLE, ask_claude("w", None, "Anew.")))
    assert [each.text for each in fresh.value.canisters] == ["Anew."]


def test_a_compaction_moves_the_last_messages(tmp_path: Path) -> None:
    """The summary comes before them then, and is said to follow them."""
    boundary = make_claude_line(
        "system", "c", None, subtype="compact_boundary", logicalParentUuid="bb"
    )
    lines = [
        *SIMPLE,
        boundary,
        ask_claude("s", "c", "This session continues …", isCompactSummary=True),
        answer_claude("bb", "s", {"type": "text", "text": "Kept."}, answer="msg_3"),
        ask_claude("v", "bb", "And now?"),
    ]
    (found,) = read(write_lines(tmp_path / "s.jsonl", *lines))
    assert [each.text for each in found.value.canisters[7:]] == [
        "One file.", "This session continues …", "Kept.", "And now?"
    ]  # fmt: skip


def test_messages_that_a_compaction_repeats_are_kept_once(tmp_path: Path) -> None:
    lines = [*SIMPLE, ask_claude("v", "b", "Thanks.")]
    replay = {**ask_claude("v", "b", "Thanks."), "uuid": "another"}
    after = answer_claude("w", "another", {"type": "text", "text": "Bye."}, answer="msg_3")
    (before,) = read(write_lines(tmp_path / "s.jsonl", *lines))
    (found,) = read(write_lines(tmp_path / "s.jsonl", *lines, replay, after))
    ids = [each.id for each in before.value.canisters]
    assert [each.id for each in found.value.canisters][:-1] == ids
    assert found.value.canisters[-1].text == "Bye."
    assert "a line that repeats an earlier line" in tell_reasons(found)


def test_a_missing_parent_does_not_hide_the_lines_before(tmp_path: Path) -> None:
    lines = [*SIMPLE, ask_claude("v", "not-in-this-file", "And now?")]
    (found,) = read(write_lines(tmp_path / "s.jsonl", *lines))
    assert len(found.value) == 9


def test_subagents_are_conversations_of_their_own(tmp_path: Path) -> None:
    side = {"isSidechain": True}
    inside = [
        ask_claude("p", None, "Search.", **side),
        {**answer_claude("pp", "p", {"type": "text", "text": "Found."}, answer="m9"), **side},
    ]
    write_lines(tmp_path / f"{SESSION}.jsonl", *SIMPLE, *inside)
    own = ask_claude("q", None, "Plan.", agentId="a748733", **side)
    write_lines(tmp_path / SESSION / "subagents" / "agent-a748733.jsonl", own)
    agent, session, other = sorted(read(tmp_path), key=lambda each: str(each.value.metadata.name))
    assert [len(each.value) for each in (session, agent, other)] == [1, 8, 2]
    parts = [session, other]
    assert {each.value.metadata.tags for each in parts} == {(f"of:{agent.value.id}",)}


def test_media_and_unknown_blocks(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    redacted = {"type": "redacted_thinking", "data": "secret"}
    (found,) = read(
        write_lines(
            tmp_path / "s.jsonl",
            ask_claude("u", None, [{"type": "text", "text": "See:"}, image]),
            answer_claude("a", "u", redacted),
            answer_claude("aa", "a", search),
            answer_claude("aaa", "aa", LIST),
            ask_claude("r", "aaa", give("toolu_1", [image, {"type": "odd"}])),
            ask_claude("rr", "r", give("toolu_unknown", "lost")),
            ask_claude("m", "rr", "A reminder.", isMeta=True),
            make_claude_line("attachment", "t", "m", attachment={"type": "todo", "content": []}),
            ask_claude("v", "t", "Well?"),
        )
    )
    question, hidden, native, _, result, unknown, meta, attachment, _ = found.value.canisters
    assert isinstance(question.content[1], ImageContent)
    assert isinstance(hidden, AssistantCanister)
    assert hidden.content[0] == ReasoningContent(
        signature="secret", native=getattr(hidden.content[0], "native", None)
    )
    assert isinstance(native.content[0], NativeContent)
    assert '"srv_1"' in native.content[0].native.data
    assert isinstance(result.content[0], ImageContent)
    assert result.content[1].text == '{"type":"odd"}'  # type: ignore[union-attr]
    assert [each.role for each in (unknown, meta, attachment)] == ["document"] * 3
    assert attachment.text == '{"type":"todo","content":[]}'
    assert [str(loss.kind) for loss in found.losses] == ["coerced", "coerced"]


def test_a_damaged_line_is_a_loss(tmp_path: Path) -> None:
    lines = [SIMPLE[3], '{"type": "assis', "[1]", ask_claude("v", "u", "Hello?")]
    (found,) = read(write_lines(tmp_path / "s.jsonl", *lines))
    assert [each.text for each in found.value.canisters] == ["What is here?", "Hello?"]
    assert [(each.path, each.reason) for each in found.losses] == [
        ("s.jsonl: line 2", "a damaged line"),
        ("s.jsonl: line 3", "a damaged line"),
    ]


def test_a_reason_that_is_not_stored_follows_from_a_call(tmp_path: Path) -> None:
    lines = [SIMPLE[3], answer_claude("a", "u", LIST), answer_claude("aa", "a", THINKING)]
    other = answer_claude("b", "aa", {"type": "text", "text": "Done."}, answer="msg_2")
    (found,) = read(write_lines(tmp_path / "s.jsonl", *lines, other))
    reasons = [each.origin.stop_reason for each in found.value.canisters if each.origin]
    assert reasons == [StopReason.INVOCATION] * 2 + [StopReason.UNKNOWN]


def test_an_error_of_the_api_has_no_model(tmp_path: Path) -> None:
    text = {"type": "text", "text": "API Error: 529"}
    error = answer_claude("a", "u", text, model="<synthetic>", answer="x")
    error["isApiErrorMessage"] = True
    (found,) = read(write_lines(tmp_path / "s.jsonl", SIMPLE[3], error))
    assert found.value.canisters[1].origin is None
    assert tell_reasons(found) == ["that an answer is an error of the API"]


def test_a_repeated_line_is_a_loss(tmp_path: Path) -> None:
    (found,) = read(write_lines(tmp_path / "s.jsonl", *SIMPLE[:-1], SIMPLE[5], *SIMPLE[5:]))
    (expected,) = read(write_lines(tmp_path / "s.jsonl", *SIMPLE))
    assert list(found.value.canisters) == list(expected.value.canisters)
    assert tell_reasons(found).count("a line with the id of an earlier line") == 6


@pytest.mark.parametrize(
    "line",
    [
        answer_claude("z", "b", {"type": []}, answer="z"),
        answer_claude("z", "b", {"type": {"a": 1}}, answer="z", stop_reason="end_turn"),
        {**ask_claude("z", "b", "Hi"), "timestamp": "0001-01-01T00:00:00+14:00"},
        {**ask_claude("z", "b", "Hi"), "type": []},
        answer_claude(
            "z", "b", {"type": "text", "text": "Hi"}, answer="z", usage={"input_tokens": 10**30}
        ),
        answer_claude(
            "z", "b", {"type": "text", "text": "Hi"}, answer="z", usage={"input_tokens": -1}
        ),
    ],
    ids=["list", "table", "time", "kind", "many", "negative"],
)
def test_an_odd_line_does_not_stop_the_import(tmp_path: Path, line: dict[str, object]) -> None:
    (found,) = read(write_lines(tmp_path / "s.jsonl", *SIMPLE, line))
    assert len(found.value) >= 8
    found.value.save(MemoryStore())


def test_an_error_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OverflowError("too large")

    write_lines(tmp_path / "s.jsonl", *SIMPLE)
    monkeypatch.setattr(claude_code, "find_hidden", fail)
    with pytest.raises(CodecError, match=r"s\.jsonl: too large.*another folder"):
        read(tmp_path)
