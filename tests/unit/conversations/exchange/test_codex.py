"""Sessions of Codex."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.stores.sessions import PNG, make_codex_item, make_codex_line, write_lines
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.exchange import import_conversations
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister, StopReason
from vibe_llms.messages.contents import ImageContent, NativeContent, ReasoningContent
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.views import usage_of

NAME = "rollout-2026-02-18T10-00-00-019a2d7a.jsonl"
META = make_codex_line(
    "session_meta",
    {
        "id": "019a2d7a-41c4-78b1-b7cc-a45d62a89cd5",
        "timestamp": "2026-02-18T10:00:00.000Z",
        "cwd": "/srv/shop",
        "originator": "codex_cli_rs",
        "cli_version": "0.98.0",
        "source": "cli",
        "model_provider": "openai",
        "base_instructions": {"text": "You are a coding agent."},
    },
)


def ask(text: str, role: str = "user") -> dict[str, object]:
    return make_codex_item("message", role=role, content=[{"type": "input_text", "text": text}])


def say(text: str) -> dict[str, object]:
    content = [{"type": "output_text", "text": text}]
    return make_codex_item("message", 9, role="assistant", content=content)


def count(total: int, cached: int, output: int, reasoning: int) -> dict[str, object]:
    usage = {
        "input_tokens": total,
        "cached_input_tokens": cached,
        "output_tokens": output,
        "reasoning_output_tokens": reasoning,
        "total_tokens": total + output,
    }
    info = {"total_token_usage": usage, "last_token_usage": usage, "model_context_window": 272_000}
    return make_codex_line("event_msg", {"type": "token_count", "info": info, "rate_limits": None})


SESSION = [
    META,
    make_codex_line("turn_context", {"cwd": "/srv/shop", "model": "gpt-5.3-codex"}),
    ask("<permissions instructions>", "developer"),
    ask("<environment_context>\n  <cwd>/srv/shop</cwd>\n</environment_context>"),
    ask("How many files?"),
    make_codex_line("event_msg", {"type": "user_message", "message": "How many files?"}),
    make_codex_item(
        "reasoning",
        summary=[{"type": "summary_text", "text": "**Counting**"}],
        content=None,
        encrypted_content="gAAAA",
    ),
    make_codex_item(
        "function_call", name="shell", arguments='{"command":["ls"]}', call_id="call_1"
    ),
    make_codex_item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="call_2"),
    count(1000, 900, 50, 30),
    make_codex_item("function_call_output", call_id="call_1", output="a.py"),
    make_codex_item("custom_tool_call_output", call_id="call_2", output="Done"),
    count(1000, 900, 50, 30),  # again, with other limits
    say("One file."),
    count(1100, 1000, 10, 0),
]


def read(path: Path) -> list[Translation[Conversation]]:
    return list(import_conversations(path))


def test_a_session(tmp_path: Path) -> None:
    (found,) = read(write_lines(tmp_path / NAME, *SESSION))
    canisters = found.value.canisters
    assert [each.role for each in canisters] == [
        "supervisor", "supervisor", "document", "user", "assistant", "invocation", "invocation",
        "result", "result", "assistant",
    ]  # fmt: skip
    assert found.losses == ()
    assert found.value.metadata.created.year == 2026
    reasoning = ReasoningContent(summary=["**Counting**"], signature="gAAAA")
    assert canisters[4].content == (reasoning,)
    calls = [each for each in canisters if isinstance(each, InvocationCanister)]
    assert [(each.name, each.form, each.arguments) for each in calls] == [
        ("shell", "json", '{"command":["ls"]}'),
        ("apply_patch", "text", "*** Begin"),
    ]
    results = [each for each in canisters if isinstance(each, ResultCanister)]
    assert [(each.invocation_id, each.name) for each in results] == [
        ("call_1", "shell"),
        ("call_2", "apply_patch"),
    ]
    origins = [each.origin for each in (*canisters[4:7], canisters[9]) if each.origin]
    assert {(each.provider, each.model, each.protocol) for each in origins} == {
        ("openai_responses", "gpt-5.3-codex", "responses")
    }
    assert [each.stop_reason for each in origins] == [StopReason.INVOCATION] * 3 + [
        StopReason.ANSWERED
    ]
    assert len({each.turn_id for each in canisters[4:7]}) == 1
    usage = usage_of(canisters)
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens) == (200, 1900)
    assert (usage.output_tokens, usage.reasoning_tokens) == (30, 30)


def test_an_older_session_without_envelopes(tmp_path: Path) -> None:
    lines = [
        {"id": "old", "timestamp": "2025-06-01T10:00:00.000Z", "instructions": "Be brief."},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}},
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": {"content": "no", "success": False},
        },
    ]
    (found,) = read(write_lines(tmp_path / NAME, *lines))
    assert [each.role for each in found.value.canisters] == [
        "supervisor", "user", "invocation", "result"
    ]  # fmt: skip
    result = found.value.canisters[3]
    assert isinstance(result, ResultCanister)
    assert (result.text, result.is_error, result.name) == ("no", True, "local_shell")


def test_summaries_media_and_unknown_items(tmp_path: Path) -> None:
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    lines = [
        META,
        make_codex_item("message", role="user", content=[image, {"type": "odd"}]),
        make_codex_item("web_search_call", status="completed", action={"type": "search"}),
        make_codex_item("function_call_output", call_id="unknown", output=[image]),
        make_codex_line("compacted", {"message": "So far: …", "replacement_history": [{}]}),
        make_codex_line("event_msg", {"type": "turn_aborted", "reason": "interrupted"}),
        make_codex_line("event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
        make_codex_item("ghost_snapshot", ghost_commit={"id": "abc"}),
        '{"timestamp": "2026',
    ]
    (found,) = read(write_lines(tmp_path / NAME, *lines))
    _, question, search, lost, summary = found.value.canisters
    assert isinstance(question.content[0], ImageContent)
    assert question.content[0].mime_type == "image/png"
    assert isinstance(search.content[0], NativeContent)
    assert [each.role for each in (lost, summary)] == ["document", "document"]
    assert summary.text == "So far: …"
    assert [each.reason for each in found.losses] == [
        "a content of the kind 'odd' is kept as JSON",
        "the shortened history after a summary; the whole history is kept",
        "an event of the kind 'turn_aborted' is not a message",
        "a rollback: the turns that it removed are kept",
        "a line that is not a message",
        "a damaged line",
    ]


def sum_up(total: int, usage: int) -> dict[str, object]:
    totals, last = {"input_tokens": total}, {"input_tokens": usage, "output_tokens": 1}
    info = {"total_token_usage": totals, "last_token_usage": last}
    return make_codex_line("event_msg", {"type": "token_count", "info": info})


def show(text: str) -> dict[str, object]:
    return make_codex_line("event_msg", {"type": "agent_message", "message": text})


def run(call_id: str) -> list[dict[str, object]]:
    """Return a call and its result, as older versions store each of parallel calls."""
    return [
        make_codex_item("function_call", name="shell", arguments="{}", call_id=call_id),
        make_codex_item("function_call_output", call_id=call_id, output="a.py"),
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            [
                make_codex_line("event_msg", {"type": "token_count", "info": None}),
                *(show("I look."), sum_up(10, 10), say("I look."), *run("c"), sum_up(10, 10)),
                *(show("One."), sum_up(30, 20), say("One."), sum_up(30, 0)),
                *(ask("And now?"), say("Nothing.")),
            ],
            [10, 10, 20, None],
        ),
        ([sum_up(10, 10), *run("c"), *run("d"), sum_up(30, 20), *run("e")], [10, None, 20]),
        ([*run("c"), show("One."), sum_up(10, 10), say("One.")], [None, 10]),
        ([show("I"), sum_up(10, 10), ask("Stop."), say("Yes.")], [None]),
        (
            [
                *(say("One."), sum_up(10, 10), sum_up(30, 20)),
                make_codex_line("compacted", {"message": "So far."}),
                *(say("Two."), sum_up(60, 30)),
            ],
            [10, 30],
        ),
    ],
    ids=["sequence", "parallel calls", "without numbers", "aborted", "compacted"],
)
def test_numbers_that_precede_their_answer(
    tmp_path: Path, lines: list[dict[str, object]], expected: list[int | None]
) -> None:
    """Older versions write all events of an answer before its items."""
    (found,) = read(write_lines(tmp_path / NAME, META, ask("Hi"), *lines))
    answers = [each for each in found.value.canisters if each.role in ("assistant", "invocation")]
    usages = [each.origin.usage for each in answers if each.origin]
    assert [each and each.input_tokens for each in usages] == expected


def test_newer_records_of_usage(tmp_path: Path) -> None:
    usage = {
        "input_tokens": 100,
        "cached_input_tokens": 60,
        "cache_write_input_tokens": 30,
        "output_tokens": 9,
        "reasoning_output_tokens": 4,
    }
    record = {"response_id": "resp_1", "usage": usage, "thread_token_usage": usage}
    info = {"total_token_usage": usage, "last_token_usage": usage}
    after = {"total_token_usage": {**usage, "x": 1}, "last_token_usage": {"total_tokens": 6000}}
    lines = [
        META,
        ask("Hi"),
        say("Hello."),
        make_codex_line("token_usage_record", record),
        make_codex_line("event_msg", {"type": "token_count", "info": info}),
        make_codex_line("event_msg", {"type": "token_count", "info": after}),
        say("Again."),
    ]
    (found,) = read(write_lines(tmp_path / NAME, *lines))
    first, second = (each.origin for each in found.value.canisters[2:])
    assert first is not None
    assert first.usage is not None
    assert first.response_id == "resp_1"
    assert (first.usage.input_tokens, first.usage.cache_read_tokens) == (10, 60)
    assert (first.usage.cache_write_tokens, first.usage.output_tokens) == (30, 5)
    assert second is not None
    assert (second.usage, second.response_id) == (None, None)
    assert found.losses == ()


def test_a_named_session_and_its_subagent(tmp_path: Path) -> None:
    parent = "019a2d7a-41c4-78b1-b7cc-a45d62a89cd5"
    name = {"type": "thread_name_updated", "thread_id": parent, "thread_name": "Counting files"}
    write_lines(tmp_path / NAME, *SESSION, make_codex_line("event_msg", name))
    spawn = {"parent_thread_id": parent, "depth": 1, "agent_nickname": "Dalton"}
    meta = {"id": "child", "source": {"subagent": {"thread_spawn": spawn}}}
    lines = [make_codex_line("session_meta", meta), META, ask("Count.")]
    write_lines(tmp_path / f"rollout-z-{NAME}", *lines, make_codex_line("session_meta", meta))
    session, agent = read(tmp_path)
    assert [each.value.metadata.name for each in (session, agent)] == [
        "Counting files", "Subagent Dalton"
    ]  # fmt: skip
    assert session.value.metadata.tags == ()
    assert agent.value.metadata.tags == (f"of:{session.value.id}",)


def test_instructions_that_a_fork_repeats_are_kept_once(tmp_path: Path) -> None:
    (found,) = read(write_lines(tmp_path / NAME, META, META, ask("Hi")))
    assert [each.role for each in found.value.canisters] == ["supervisor", "user"]


def test_messages_in_the_users_name_are_documents(tmp_path: Path) -> None:
    details = {"content_item_metadata": [{"provenance": {"type": "harness"}}]}
    added = make_codex_item(
        "message",
        role="user",
        content=[{"type": "input_text", "text": "The apps are these."}],
        internal_chat_message_metadata_passthrough=details,
    )
    shown = {"type": "item_completed", "item": {"type": "AgentMessage", "id": "m"}}
    run = {"type": "item_completed", "item": {"type": "CommandExecution", "exit_code": 0}}
    lines = [
        META,
        added,
        ask("<turn_aborted>\nThe user interrupted."),
        ask("Go on."),
        make_codex_line("event_msg", shown),
        make_codex_line("event_msg", run),
    ]
    (found,) = read(write_lines(tmp_path / NAME, *lines))
    assert [each.role for each in found.value.canisters[1:]] == ["document", "document", "user"]
    assert [each.reason for each in found.losses] == [
        "an event of the kind 'item_completed/CommandExecution' is not a message"
    ]


def test_messages_of_agents_and_drawn_pictures(tmp_path: Path) -> None:
    """What another agent says is input; a picture is the result of a call of the vendor."""
    parts = [
        {"type": "input_text", "text": "Count the files."},
        {"type": "encrypted_content", "encrypted_content": "gAAAA"},
    ]
    drawn = {"id": "ig_1", "status": "completed", "result": PNG, "revised_prompt": "A cat"}
    lines = [
        META,
        make_codex_item("agent_message", author="/lead", recipient="/lead/a", content=parts),
        say("One."),
        make_codex_item("image_generation_call", **drawn),
        sum_up(10, 10),
        make_codex_item("image_generation_call", id="ig_2", status="failed", result=None),
    ]
    (found,) = read(write_lines(tmp_path / NAME, *lines))
    _, task, answer, call, result, failed = found.value.canisters
    assert (task.role, task.text, getattr(task, "title", "")) == (
        "document", "Count the files.", "Message of /lead"
    )  # fmt: skip
    assert isinstance(call, InvocationCanister)
    assert isinstance(result, ResultCanister)
    assert call.parse_arguments() == {"prompt": "A cat"}
    assert result.invocation_id == call.invocation_id
    assert isinstance(result.content[0], ImageContent)
    assert getattr(answer, "turn_id", "") == call.turn_id == result.turn_id
    assert call.origin is not None
    assert call.origin.usage is not None
    assert isinstance(failed.content[0], NativeContent)
    assert [each.reason for each in found.losses] == [
        "the encrypted part of a message of another agent"
    ]


def test_an_encrypted_summary_is_told(tmp_path: Path) -> None:
    history = [{"type": "compaction", "encrypted_content": "gAAAA"}]
    line = make_codex_line("compacted", {"message": "", "replacement_history": history})
    (found,) = read(write_lines(tmp_path / NAME, META, ask("Hi"), line))
    assert len(found.value) == 2
    (loss,) = found.losses
    assert "an encrypted summary" in loss.reason


def test_a_folder_has_many_sessions_and_each_grows(tmp_path: Path) -> None:
    write_lines(tmp_path / "2026" / "02" / "18" / NAME, *SESSION)
    other = make_codex_line("session_meta", {"session_id": "other"})
    write_lines(tmp_path / "2026" / "02" / "19" / f"rollout-{NAME}", other, ask("Hi"))
    write_lines(tmp_path / "2026" / "02" / "19" / "rollout-empty.jsonl", other)
    first, second = read(tmp_path)
    assert [len(first.value), len(second.value)] == [10, 1]
    write_lines(tmp_path / "2026" / "02" / "18" / NAME, *SESSION, ask("Thanks"))
    again, _ = read(tmp_path)
    assert again.value.id == first.value.id
    assert [each.id for each in again.value.canisters][:-1] == [
        each.id for each in first.value.canisters
    ]
