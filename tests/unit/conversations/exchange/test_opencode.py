"""Sessions of opencode: files, database and export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.stores.sessions import (
    OPENCODE_SESSION,
    PNG,
    make_opencode_message,
    write_opencode,
    write_opencode_database,
)
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.exchange import import_conversations
from vibe_llms.exceptions import CodecError, RequestError
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister, StopReason
from vibe_llms.messages.contents import ImageContent, ReasoningContent
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.views import usage_of

TOKENS = {"input": 10, "output": 20, "reasoning": 5, "cache": {"read": 30, "write": 40}}
FILE = {"type": "file", "mime": "image/png", "filename": "a.png"}


def call(identity: str, **state: Any) -> dict[str, Any]:
    return {"type": "tool", "callID": identity, "tool": "bash", "state": state}


MESSAGES = [
    make_opencode_message(
        "msg_1",
        "user",
        {"type": "text", "text": "How many files?"},
        {"type": "text", "text": "Called the Read tool", "synthetic": True},
        {**FILE, "url": f"data:image/png;base64,{PNG}"},
        system="Be brief.",
    ),
    make_opencode_message(
        "msg_2",
        "assistant",
        {"type": "step-start", "snapshot": "abc"},
        {"type": "reasoning", "text": "Hm.", "metadata": {"anthropic": {"signature": "sig"}}},
        call("c1", status="completed", input={"command": "ls"}, output="a.py", title="ls"),
        call("c2", status="error", input={"command": "no"}, error="not found"),
        {"type": "step-finish", "reason": "tool-calls", "cost": 0.1, "tokens": TOKENS},
        {"type": "patch", "hash": "abc", "files": ["a.py"]},
        {"type": "step-start"},
        {"type": "text", "text": "One."},
        {"type": "step-finish", "reason": "stop", "cost": 0.1, "tokens": TOKENS},
    ),
    make_opencode_message("msg_3", "user", {"type": "text", "text": "Go on."}, system="Be brief."),
    make_opencode_message(
        "msg_4",
        "assistant",
        {"type": "step-start"},
        call("c3", status="running", input={"command": "sleep"}),
        error={"name": "MessageAbortedError", "data": {"message": "aborted"}},
    ),
]


def read(path: Path) -> list[Translation[Conversation]]:
    return list(import_conversations(path))


@pytest.fixture(params=["folder", "storage", "database", "folder with database", "export"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the path of the same session in one of its forms."""
    if request.param == "export":
        messages = [{"info": message, "parts": parts} for message, parts in MESSAGES]
        document = json.dumps({"info": OPENCODE_SESSION, "messages": messages})
        file = tmp_path / "session.json"
        file.write_text(document, encoding="utf-8")
        return file
    if "database" in request.param:
        database = write_opencode_database(tmp_path / "opencode.db", OPENCODE_SESSION, MESSAGES)
        if request.param == "database":
            return database
    folder = write_opencode(tmp_path, OPENCODE_SESSION, MESSAGES)
    return folder / "storage" if request.param == "storage" else folder


def test_a_session_in_each_form(path: Path) -> None:
    (found,) = read(path)
    canisters = found.value.canisters
    assert found.value.metadata.name == "Count the files"
    assert [each.role for each in canisters] == [
        "supervisor", "document", "user", "assistant", "invocation", "invocation", "result",
        "result", "assistant", "user", "invocation",
    ]  # fmt: skip
    assert isinstance(canisters[2].content[1], ImageContent)
    assert canisters[3].content == (ReasoningContent(text="Hm.", signature="sig"),)
    call, result, failed = canisters[4], canisters[6], canisters[7]
    assert isinstance(call, InvocationCanister)
    assert (call.name, call.arguments) == ("bash", '{"command":"ls"}')
    assert isinstance(result, ResultCanister)
    assert (result.invocation_id, result.text) == ("c1", "a.py")
    assert isinstance(failed, ResultCanister)
    assert (failed.text, failed.is_error) == ("not found", True)
    steps = [each.origin for each in (canisters[3], canisters[8], canisters[10]) if each.origin]
    assert [each.stop_reason for each in steps] == [
        StopReason.INVOCATION, StopReason.ANSWERED, StopReason.INTERRUPTED
    ]  # fmt: skip
    assert {(each.provider, each.protocol) for each in steps} == {("anthropic", "messages")}
    assert len({each.turn_id for each in canisters[3:6]}) == 1
    usage = usage_of(canisters[:10])
    assert usage is not None
    assert (usage.input_tokens, usage.reasoning_tokens, usage.cache_write_tokens) == (20, 10, 80)
    assert [each.reason for each in found.losses] == [
        "a part of the kind 'patch' has no counterpart"
    ]


def test_subagents_and_lost_parts(tmp_path: Path) -> None:
    child = {**OPENCODE_SESSION, "id": "ses_2", "parentID": "ses_1", "title": ""}
    task = {"type": "subtask", "prompt": "Search.", "description": "d", "agent": "general"}
    write_opencode(
        tmp_path,
        child,
        [
            make_opencode_message(
                "msg_5", "user", task, {**FILE, "url": "file:///a.png"}, {"type": "agent"}
            ),
            make_opencode_message("msg_6", "assistant", error={"name": "APIError"}),
        ],
    )
    write_opencode(tmp_path, OPENCODE_SESSION, MESSAGES)
    first, second = sorted(read(tmp_path), key=lambda each: -len(each.value))
    assert second.value.metadata.tags == (f"of:{first.value.id}",)
    assert [each.text for each in second.value.canisters] == ["Search."]
    assert [each.reason for each in second.losses] == [
        "a task for a subagent is kept as its prompt",
        "a file whose bytes are not in the session",
        "a part of the kind 'agent' has no counterpart",
        "the error 'APIError' instead of an answer",
    ]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    write_opencode(tmp_path, OPENCODE_SESSION, MESSAGES)
    (tmp_path / "storage" / "part" / "msg_1" / "prt_1_0.json").write_text("{", encoding="utf-8")
    with pytest.raises(CodecError, match=r"prt_1_0\.json"):
        read(tmp_path)


def test_another_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Hi", encoding="utf-8")
    with pytest.raises(RequestError, match="not in a known format"):
        read(tmp_path)


def test_what_has_no_counterpart_is_told(tmp_path: Path) -> None:
    part = call("c1", status="completed", output="no", metadata={"exit": 3})
    session = {**OPENCODE_SESSION, "revert": {"messageID": "msg_1"}}
    answer = make_opencode_message("msg_1", "assistant", part)
    (found,) = read(write_opencode(tmp_path, session, [answer]))
    assert [(str(each.kind), each.reason) for each in found.losses] == [
        ("dropped", "the structured form of a result; its text is kept"),
        ("coerced", "a revert: the messages that it hides are kept"),
    ]
    assert len(found.value) == 2


def test_a_message_without_the_numbers_of_its_steps(tmp_path: Path) -> None:
    """A single step has the usage of the message; two steps have none, as it is not known whose."""
    end = {"type": "step-finish", "reason": "stop", "tokens": {}}
    text = {"type": "text", "text": "Hi"}
    write_opencode(
        tmp_path,
        OPENCODE_SESSION,
        [
            make_opencode_message("msg_1", "assistant", text, end),
            make_opencode_message("msg_2", "assistant", text, end, text),
        ],
    )
    (found,) = read(tmp_path)
    usages = [each.origin.usage for each in found.value.canisters if each.origin]
    assert [each and each.cache_write_tokens for each in usages] == [4, None, None]


def test_an_unfinished_answer_is_imported_once_it_is_finished(tmp_path: Path) -> None:
    """Calls run in parallel: the second may have its result before the first."""
    question = make_opencode_message("msg_1", "user", {"type": "text", "text": "Count."})
    queued = make_opencode_message("msg_3", "user", {"type": "text", "text": "And then?"})

    def import_state(*parts: dict[str, Any]) -> Conversation:
        answer = make_opencode_message("msg_2", "assistant", *parts)
        (found,) = read(write_opencode(tmp_path, OPENCODE_SESSION, [question, answer, queued]))
        return found.value

    first = call("c1", status="completed", output="1")
    second = call("c2", status="completed", output="2")
    end = {"type": "step-finish", "tokens": TOKENS}
    text = {"type": "text", "text": "T", "time": {"start": 1}}
    states = [
        import_state(call("c1", status="running"), second),
        import_state(first, second, end, text),
        import_state(first, second, end, {**text, "text": "Two.", "time": {"start": 1, "end": 2}}),
    ]
    assert [len(each) for each in states] == [1, 5, 7]
    last = states[-1].canisters
    for state in states:
        assert list(state.canisters) == list(last[: len(state)])
    results = [each.invocation_id for each in last if isinstance(each, ResultCanister)]
    assert results == ["c1", "c2"]
    assert len({each.id for each in last}) == 7


def test_ids_of_an_answer_follow_from_its_parts(tmp_path: Path) -> None:
    """A call whose result came after the import does not take the id of another message."""

    def import_state(status: str) -> dict[str, str]:
        parts = [call("c1", status=status), call("c2", status="completed")]
        answer = make_opencode_message("msg_1", "assistant", *parts, error={"name": "Abort"})
        (found,) = read(write_opencode(tmp_path, OPENCODE_SESSION, [answer]))
        return {
            each.id: f"{each.role} {each.invocation_id}"
            for each in found.value.canisters
            if isinstance(each, (InvocationCanister, ResultCanister))
        }

    before, after = import_state("running"), import_state("completed")
    assert len(after) == 4
    assert before.items() <= after.items()


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 10**30, -5], ids=["huge", "-huge", "large", "negative"]
)
def test_values_out_of_bounds_are_unknown(tmp_path: Path, value: int) -> None:
    text = {"type": "text", "text": "Hi"}
    tokens = {"input": value, "output": 1}
    messages = [
        make_opencode_message("msg_1", "assistant", text, tokens=tokens, time={"created": value})
    ]
    session = {**OPENCODE_SESSION, "time": {"created": value}}
    (found,) = read(write_opencode(tmp_path, session, messages))
    usage = usage_of(found.value.canisters)
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (None, 1)
