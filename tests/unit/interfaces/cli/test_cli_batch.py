"""``vibe batch`` asks for each line, writes a line for each answer, goes on where it stopped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vibe_llms.batches.items import BatchItem, BatchTally
from vibe_llms.exceptions import LimitError, ProviderError, ProviderFault
from vibe_llms.interfaces.cli.batches.display import BatchNotes, describe_counts
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.messages.canisters import Origin, Usage
from vibe_llms.messages.requests import Request

Vibe = Callable[..., Any]

SCRIPT = """
[[responses]]
contents = [{ text = "fine" }]
"""
FAILING = """
[[responses]]
match = "two"
contents = [{ text = "fine" }]
fault = { kind = "overloaded" }
"""


def write_lines(path: Path, *lines: object) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def read_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_each_line_is_asked_and_answered(vibe: Vibe, home: Path) -> None:
    """Texts, and objects with an id; what is written is in the order of what is read."""
    write_lines(home / "prompts.jsonl", "one", {"prompt": "two", "id": "b"}, {"prompt": "drei ß"})

    outcome = vibe("batch", "prompts.jsonl", "--output", "answers.jsonl")

    assert outcome.code == 0, outcome.err
    assert outcome.out == ""
    assert "3 done, 0 failed" in outcome.err
    lines = read_lines((home / "answers.jsonl").read_text("utf-8"))
    assert [(line["index"], line["id"], line["text"]) for line in lines] == [
        (0, None, "one"),
        (1, "b", "two"),
        (2, None, "drei ß"),
    ]
    assert lines[0]["origin"]["model"] == "echo"
    assert lines[0]["error"] is None


def test_without_an_output_answers_go_to_standard_output(vibe: Vibe, home: Path) -> None:
    """As lines of the same shape, without the digests that only a journal needs."""
    write_lines(home / "prompts.jsonl", *(f"q{number}" for number in range(9)))

    outcome = vibe("batch", "prompts.jsonl", "--concurrency", "3")

    assert outcome.code == 0
    lines = read_lines(outcome.out)
    assert [line["text"] for line in lines] == [f"q{number}" for number in range(9)]
    assert "batch" not in lines[0]
    assert "9 done" in outcome.err


def test_controls_that_the_model_lacks_are_left_out_where_one_is_lenient(
    vibe: Vibe, home: Path
) -> None:
    """As for a single question."""
    write_lines(home / "prompts.jsonl", "one")
    asked = ("batch", "prompts.jsonl", "-c", "sparkle=1")

    refused, lenient = vibe(*asked), vibe(*asked, "--lenient")

    assert refused.code != 0
    assert lenient.code == 0, lenient.err
    assert read_lines(lenient.out)[0]["text"] == "one"


def test_lines_of_text_are_prompts_as_they_stand(vibe: Vibe, home: Path) -> None:
    """In a file that ends in .txt, or with --text; empty lines are passed over."""
    (home / "questions.txt").write_text("Who?\n\n{When}\n", encoding="utf-8")

    by_name = vibe("batch", "questions.txt")
    by_option = vibe("batch", "-", "--text", stdin=b"Who?\n\n{When}")

    for outcome in (by_name, by_option):
        assert [line["text"] for line in read_lines(outcome.out)] == ["Who?", "{When}"]


def test_standard_input_has_lines_too(vibe: Vibe) -> None:
    """Of JSON, unless said otherwise."""
    outcome = vibe("batch", "-", stdin=b'"one"\n{"prompt": "two", "id": 7}')

    assert [(line["id"], line["text"]) for line in read_lines(outcome.out)] == [
        (None, "one"),
        ("7", "two"),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"What?", "not valid JSON .*--text"),
        (b"{", "is not valid JSON"),
        (b"[1]", "is an array"),
        (b"12", "is a number or null"),
        (b"null", "is a number or null"),
        (b'""', "prompt is empty"),
        (b'{"id": "a"}', '"prompt" is missing or not a string'),
        (b'{"prompt": 5}', '"prompt" is missing or not a string'),
        (b'{"prompt": "a", "promt": "b"}', "Unknown keys: 'promt'"),
        (b'{"prompt": "a", "id": [1]}', '"id" is neither a string nor a whole number'),
        (b'{"prompt": "a", "id": "x"}', "id 'x' is already used in line 1"),
        (b"\xff", r"not UTF-8 \(byte 1\)"),
        (b"[" * 100_000, "nests too deeply|is not valid JSON"),
    ],
)
def test_a_bad_line_is_named_before_anything_is_sent(
    vibe: Vibe, home: Path, line: bytes, reason: str
) -> None:
    """With its number and the rule; no output is begun."""
    (home / "prompts.jsonl").write_bytes(b'{"prompt": "fine", "id": "x"}\n' + line + b"\n")

    outcome = vibe("batch", "prompts.jsonl", "--output", "answers.jsonl")

    assert outcome.code == ExitCode.REQUEST
    assert "prompts.jsonl:2: " in outcome.err
    assert re.search(reason, outcome.err)
    assert not (home / "answers.jsonl").exists()


def test_only_the_first_bad_lines_are_told_of(vibe: Vibe, home: Path) -> None:
    """With how many more there are."""
    (home / "prompts.jsonl").write_text("x\n" * 10)

    outcome = vibe("batch", "prompts.jsonl")

    assert outcome.err.count("prompts.jsonl:") == 3
    assert "And 7 more lines." in outcome.err


def test_a_bad_line_in_a_pipe_ends_the_taking(vibe: Vibe) -> None:
    """What came before it is done."""
    outcome = vibe("batch", "-", stdin=b'"one"\n"two"\nthree\n"four"\n')

    assert outcome.code == ExitCode.REQUEST
    assert [line["text"] for line in read_lines(outcome.out)] == ["one", "two"]
    assert "standard input:3: The line is not valid JSON" in outcome.err


def test_a_file_without_inputs_is_a_mistake(vibe: Vibe, home: Path) -> None:
    """Nothing would be asked."""
    (home / "prompts.jsonl").write_text("\n")

    outcome = vibe("batch", "prompts.jsonl")

    assert outcome.code == ExitCode.REQUEST
    assert "has no inputs" in outcome.err


def test_a_file_that_is_not_there_is_a_mistake(vibe: Vibe) -> None:
    """Named, with the remedy."""
    outcome = vibe("batch", "none.jsonl")

    assert outcome.code == ExitCode.REQUEST
    assert "Cannot read none.jsonl: No such file" in outcome.err


def test_the_same_command_goes_on(vibe: Vibe, home: Path) -> None:
    """What is in the output is not asked again; new lines are."""
    write_lines(home / "prompts.jsonl", "one", "two")
    vibe("batch", "prompts.jsonl", "-o", "answers.jsonl")
    before = (home / "answers.jsonl").read_bytes()
    write_lines(home / "prompts.jsonl", "one", "two", "three")

    outcome = vibe("batch", "prompts.jsonl", "-o", "answers.jsonl")

    assert outcome.code == 0
    assert "1 done, 2 earlier, 0 failed" in outcome.err
    after = (home / "answers.jsonl").read_bytes()
    assert after.startswith(before)
    assert len(after.splitlines()) == 3


def test_other_settings_are_refused(vibe: Vibe, home: Path) -> None:
    """With the way on."""
    write_lines(home / "prompts.jsonl", "one")
    vibe("batch", "prompts.jsonl", "-o", "answers.jsonl")

    outcome = vibe("batch", "prompts.jsonl", "-o", "answers.jsonl", "-s", "Be brief.")

    assert outcome.code == ExitCode.REQUEST
    assert "other settings" in outcome.err
    assert "name another file" in outcome.err


def test_failures_are_listed_kept_and_asked_again(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code says that some failed; --retry-failed asks for those alone."""
    script = home / "script.toml"
    script.write_text(FAILING + SCRIPT)
    monkeypatch.setenv("VIBE_LLMS_LIMITS_ATTEMPTS", "1")
    write_lines(home / "prompts.jsonl", "one", "two", "three")
    command = ("batch", "prompts.jsonl", "-o", "answers.jsonl", "-m", f"scripted:{script}")

    failed = vibe(*command)
    again = vibe(*command)
    script.write_text(SCRIPT)
    mended = vibe(*command, "--retry-failed")

    assert failed.code == ExitCode.INCOMPLETE
    assert "3 done, 1 failed" in failed.err
    assert "provider (overloaded)" in failed.err
    assert "--retry-failed" in failed.err
    assert again.code == ExitCode.INCOMPLETE
    assert "0 done, 3 earlier, 1 failed" in again.err
    assert mended.code == 0, mended.err
    assert "1 done, 2 earlier, 0 failed" in mended.err
    lines = read_lines((home / "answers.jsonl").read_text())
    assert [line["text"] for line in lines] == ["fine", "fine", "fine"]


def test_a_template_makes_prompts_of_variables(vibe: Vibe, home: Path) -> None:
    """Each line is an object with its variables; the id is none, unless the template says so."""
    (home / "who.j2").write_text("Who is {{ name }}?")
    (home / "which.j2").write_text("Which is {{ id }}?")
    write_lines(home / "people.jsonl", {"name": "Ada", "id": "a"}, {"name": "Grace"})
    write_lines(home / "ids.jsonl", {"id": "a"})

    named = vibe("batch", "people.jsonl", "--prompt", "who.j2")
    numbered = vibe("batch", "ids.jsonl", "--prompt", "which.j2")

    assert [(line["id"], line["text"]) for line in read_lines(named.out)] == [
        ("a", "Who is Ada?"),
        (None, "Who is Grace?"),
    ]
    assert read_lines(numbered.out)[0]["text"] == "Which is a?"


@pytest.mark.parametrize("line", [{"nom": "Ada"}, "Ada", {}])
def test_variables_that_do_not_fit_are_named(vibe: Vibe, home: Path, line: object) -> None:
    """Before anything is sent."""
    (home / "who.j2").write_text("Who is {{ name }}?")
    write_lines(home / "people.jsonl", {"name": "Grace"}, line)

    outcome = vibe("batch", "people.jsonl", "--prompt", "who.j2")

    assert outcome.code == ExitCode.REQUEST
    assert "people.jsonl:2: " in outcome.err
    assert outcome.out == ""


def test_a_schema_makes_values_of_answers(vibe: Vibe, home: Path) -> None:
    """The value stands beside the text; an answer that does not fit is a failure."""
    script = home / "script.toml"
    script.write_text(
        "[[responses]]\nmatch = 'good'\ncontents = [{ text = '{\"n\": 1}' }]\n"
        '[[responses]]\ncontents = [{ text = \'{"n": "x"}\' }]\n'
    )
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    (home / "schema.json").write_text(json.dumps(schema))
    write_lines(home / "prompts.jsonl", "good", "bad")

    outcome = vibe("batch", "prompts.jsonl", "--schema", "schema.json", "-m", f"scripted:{script}")

    lines = read_lines(outcome.out)
    assert outcome.code == ExitCode.INCOMPLETE
    assert lines[0]["value"] == {"n": 1}
    assert lines[1]["error"]["error"] == "parse"


def test_trying_again_needs_an_output(vibe: Vibe, home: Path) -> None:
    """Standard output remembers nothing."""
    write_lines(home / "prompts.jsonl", "one")

    outcome = vibe("batch", "prompts.jsonl", "--retry-failed")

    assert outcome.code == ExitCode.USAGE
    assert "needs the --output" in outcome.err


def test_the_summary_can_be_json(vibe: Vibe, home: Path) -> None:
    """On standard output where the answers go elsewhere."""
    write_lines(home / "prompts.jsonl", "one", "two")

    outcome = vibe("batch", "prompts.jsonl", "-o", "answers.jsonl", "--json")

    summary = outcome.read_json()
    assert (summary["done"], summary["failed"], summary["output"]) == (2, 0, "answers.jsonl")
    assert outcome.err == ""


def test_failures_are_grouped_by_kind() -> None:
    """With the first places of each, and what one of them says."""
    account = BatchNotes()
    for index in range(8):
        error = ProviderError(provider="p", detail="busy", fault=ProviderFault.OVERLOADED)
        account.add(BatchItem(index=index, error=error))
    account.add(BatchItem(index=8, id="nine", error=LimitError(limit="run_steps", value=3)))

    assert {kind: group.count for kind, group in account.failures.items()} == {
        "provider (overloaded)": 8,
        "limit": 1,
    }
    assert account.failures["provider (overloaded)"].items == ["0", "1", "2", "3", "4"]
    assert account.failures["limit"].items == ["nine"]


def test_money_is_counted_as_far_as_prices_are_known() -> None:
    """An answer without a price is counted as such."""
    pytest.importorskip("genai_prices")
    account = BatchNotes()
    usage = Usage(input_tokens=1_000_000, output_tokens=0)
    account.add(BatchItem(index=0, origin=Origin(provider="openai", model="gpt-4o", usage=usage)))
    account.add(BatchItem(index=1, origin=Origin(provider="local", model="m", usage=usage)))

    assert account.cost > 0
    assert account.unpriced == 1


def test_the_counts_of_the_bar_are_short() -> None:
    """Items, rate, failures, tokens."""
    tally = BatchTally(total=2_000)
    usage = Usage(input_tokens=1_500, output_tokens=500)
    tally.count(BatchItem(index=0, origin=Origin(provider="p", model="m", usage=usage)))
    tally.count(BatchItem(index=1, error=LimitError()))

    words = describe_counts(tally, BatchNotes()).split("  ")

    assert (words[0], words[2:]) == ("2/2,000", ["1 failed", "2,000 tokens"])


@pytest.mark.parametrize("window", ["stop", "drop", "summarize"])
def test_the_window_is_chosen_as_for_a_question(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch, window: str
) -> None:
    """By the same option, which every request of the batch bears."""
    from vibe_llms.providers.scripted.client import ScriptedModel

    windows: list[str] = []
    check = ScriptedModel.check

    def watch(self: ScriptedModel, request: Request) -> None:
        windows.append(request.window)
        check(self, request)

    monkeypatch.setattr(ScriptedModel, "check", watch)
    write_lines(home / "prompts.jsonl", "one")

    outcome = vibe("batch", "prompts.jsonl", "--window", window)

    assert outcome.code == 0, outcome.err
    assert set(windows) == {window}


def test_each_text_gets_a_vector(vibe: Vibe, home: Path) -> None:
    """Many texts share a request; the same command goes on."""
    texts = [f"the sea {number}" for number in range(300)]
    command = ("batch", "texts.jsonl", "--genus", "embedder", "-m", "scripted:words")
    write_lines(home / "texts.jsonl", *texts[:290], {"text": "last", "id": "z"})

    first = vibe(*command, "--dimensions", "4", "-o", "vectors.jsonl")
    write_lines(home / "texts.jsonl", *texts[:290], {"text": "last", "id": "z"}, *texts[290:])
    second = vibe(*command, "--dimensions", "4", "-o", "vectors.jsonl")
    other = vibe(*command, "--dimensions", "5", "-o", "vectors.jsonl")

    assert first.code == second.code == 0, first.err + second.err
    assert "291 done, 0 failed" in first.err
    assert "10 done, 291 earlier, 0 failed" in second.err
    assert "other settings" in other.err
    lines = read_lines((home / "vectors.jsonl").read_text("utf-8"))
    assert [line["index"] for line in lines] == list(range(301))
    assert (lines[290]["id"], lines[290]["text"], len(lines[290]["value"])) == ("z", None, 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--genus", "ranker"), "'ranker' is not one of 'converser', 'embedder', 'moderator'"),
        (("--genus", "embedder", "--system", "x"), "--system cannot be combined"),
        (("--genus", "embedder", "-c", "seed=1"), "--control cannot be combined"),
        (("--genus", "moderator", "--dimensions", "3"), "--dimensions cannot be combined"),
        (("--purpose", "query"), "--purpose cannot be combined with --genus converser"),
    ],
)
def test_a_genus_has_its_own_options(
    vibe: Vibe, home: Path, options: tuple[str, ...], words: str
) -> None:
    write_lines(home / "texts.jsonl", "one")
    outcome = vibe("batch", "texts.jsonl", *options)
    assert outcome.code == ExitCode.USAGE
    assert words in outcome.err


def test_a_line_of_an_embedder_has_a_text(vibe: Vibe, home: Path) -> None:
    write_lines(home / "texts.jsonl", {"prompt": "one"})
    outcome = vibe("batch", "texts.jsonl", "--genus", "embedder", "-m", "scripted:words")
    assert '"text" is missing' in outcome.err
