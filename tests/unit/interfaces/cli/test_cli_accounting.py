"""How an account is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.runs.acting import invoke, say, script
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.instruments.engines import SyncEngine
from vibe_llms.interfaces.cli.accounting import (
    compose_document,
    compose_tables,
    summarize,
    write_amount,
    write_seconds,
)
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    Usage,
    UserCanister,
)
from vibe_llms.telemetry.accounts import Account, ModelAccount, ToolAccount
from vibe_llms.telemetry.prices import BucketPrice

Vibe = Callable[..., Any]

ACCOUNT = Account(
    models=(
        ModelAccount(
            model="anthropic:claude",
            generations=3,
            failures=1,
            unreported=1,
            usage=Usage(
                input_tokens=1200, cache_read_tokens=800, output_tokens=300, reasoning_tokens=100
            ),
            prices=(
                BucketPrice(bucket="input_tokens", tokens=1200, amount=Decimal("0.0036")),
                BucketPrice(bucket="reasoning_tokens", tokens=100, amount=Decimal("0.0015")),
            ),
            unpriced=("The vendor did not report how many tokens were used.",),
            seconds=70.5,
            reasoning_seconds=8.25,
        ),
    ),
    tools=(ToolAccount(name="read_file", calls=4, failures=1, seconds=3.0),),
    tools_seconds=2.0,
    approvals=1,
    retries=2,
    doubted=1,
)
TABLES = """\
state       input  output     cost      time
reasoning             100  $0.0015     8.2 s
generation  2,000     300  $0.0036  1:02 min
tools                                  2.0 s
approval                                   ?

model             asked  failed  input  cached  output     cost      time
anthropic:claude      3       1  2,000     800     400  $0.0051  1:10 min

tool       calls  failed   time
read_file      4       1  3.0 s

Not in the cost: The vendor did not report how many tokens were used.
The usage of 1 answer is unknown.
1 approval requested.
Requests were retried 2 times.
1 interrupted answer may have been billed."""


def test_tables_show_what_was_used_where_and_what_is_not_known() -> None:
    """By state, by model, by tool; columns without anything to say are left out."""
    assert compose_tables(ACCOUNT) == TABLES


def test_an_empty_account_says_so() -> None:
    """No table of nothing."""
    assert compose_tables(Account()) == "Nothing has been used yet."


def test_a_long_name_gives_way_to_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a narrow terminal names are cut, numbers never."""
    monkeypatch.setenv("COLUMNS", "70")
    lines = compose_tables(ACCOUNT).splitlines()

    (line,) = [line for line in lines if "1:10 min" in line]
    assert line.startswith("anthropic:cl… ")
    assert "2,000" in line


def test_a_document_for_programs_is_exact() -> None:
    """Amounts are texts of exact decimals, and what is not known is null."""
    document = json.loads(json.dumps(compose_document(ACCOUNT)))

    assert (document["amount"], document["currency"]) == ("0.0051", "USD")
    assert document["models"][0]["usage"]["cache_write_tokens"] is None
    assert document["models"][0]["prices"][0]["amount"] == "0.0036"
    assert document["states"][3] == {
        "state": "approval",
        "input_tokens": None,
        "output_tokens": None,
        "amount": None,
        "seconds": None,
    }


def test_one_line_says_what_is_known() -> None:
    """After a run: answers, calls, tokens and money."""
    assert summarize(ACCOUNT) == "3 answers, 4 calls, 2,000 tokens in, 400 out, $0.0051"
    assert summarize(Account()) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (0.0, "0.0 s"), (0.05, "50 ms"), (59.94, "59.9 s"), (3_725.0, "1:02:05 h")],
)
def test_durations_are_written_as_people_say_them(seconds: float | None, text: str) -> None:
    """Milliseconds, seconds, minutes or hours, whichever is short."""
    assert write_seconds(seconds) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "?"), ("0", "$0.00"), ("0.0000004", "$0.0000004"), ("1234.5", "$1,234.50")],
)
def test_amounts_have_at_least_two_places(amount: str | None, text: str) -> None:
    """And more where they would show nothing."""
    assert write_amount(None if amount is None else Decimal(amount)) == text


def _store(home: Path) -> str:
    origin = Origin(
        provider="anthropic",
        model="claude-opus-5-5",
        usage=Usage(input_tokens=1_000_000, output_tokens=0),
    )
    noon = datetime(2026, 11, 22, 12, tzinfo=UTC)
    conversation = Conversation()
    conversation.add_canisters(
        [
            UserCanister("Read it"),
            AssistantCanister("Well.", origin=origin, turn_id="t", timestamp=noon),
            InvocationCanister(invocation_id="c", name="read", origin=origin, turn_id="t"),
            ResultCanister("No.", invocation_id="c", name="read", is_error=True),
        ]
    )
    conversation.save(DirectoryStore(home / ".local/share/vibe-llms"))
    return conversation.id


def test_show_usage_tells_what_a_stored_conversation_used(vibe: Vibe, home: Path) -> None:
    """``vibe show --usage`` has tokens, money and calls; times nobody has kept."""
    identity = _store(home)

    tables = vibe("show", "--usage", identity).out
    document = vibe("show", "--usage", "--json", identity).read_json()

    assert "$4.00" in tables
    assert document["id"] == identity
    assert document["usage"]["amount"] == "4"
    (tool,) = document["usage"]["tools"]
    assert (tool["name"], tool["calls"], tool["failures"], tool["seconds"]) == ("read", 1, 1, None)


def test_what_an_engine_logged_tells_how_long_it_took(vibe: Vibe, home: Path) -> None:
    """The log beside a conversation has the times; a damaged one is said, and left out."""

    def count_words(text: str) -> int:
        """Counts words.

        Args:
            text: Whose.
        """
        return len(text.split())

    model = script([invoke("count_words", text="one two")], [say("Two.")])
    store = DirectoryStore(home / ".local/share/vibe-llms")
    result = SyncEngine(model, [count_words], store=store).answer("How many?")
    identity = result.conversation.id

    document = vibe("show", "--usage", "--json", identity).read_json()["usage"]

    (used,), (tool,) = document["models"], document["tools"]
    assert (used["generations"], used["untimed"], tool["untimed"]) == (2, 0, 0)
    assert used["seconds"] > 0
    assert document["states"][2]["seconds"] >= 0

    (log,) = (home / ".local/share/vibe-llms").rglob("runs.jsonl")
    log.write_bytes(b"{}\n" + log.read_bytes())
    damaged = vibe("show", "--usage", "--json", identity)

    assert "runs.jsonl" in damaged.err
    left = damaged.read_json()["usage"]
    assert (left["models"][0]["untimed"], left["tools"][0]["untimed"]) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--no-stream",), ("--tools", "fetch")])
def test_one_question_tells_how_long_its_answer_took(
    vibe: Vibe, home: Path, options: tuple[str, ...]
) -> None:
    """Where no engine has logged it, the stored answer has it."""
    (home / "script.toml").write_text('[[responses]]\ncontents = [{ text = "Yes." }]\n')
    assert vibe("ask", "-m", f"scripted:{home / 'script.toml'}", *options, "Well?").code == 0
    assert vibe("ask", "--continue", *options, "And?").code == 0

    used = vibe("show", "--usage", "--json").read_json()["usage"]
    shown = vibe("show", "--usage").out

    (model,) = used["models"]
    assert (model["generations"], model["untimed"]) == (2, 0)
    assert model["seconds"] > 0
    (line,) = [line for line in shown.splitlines() if line.startswith("scripted:")]
    assert not line.endswith("?")
    states = [line for line in shown.splitlines() if line.startswith("generation")]
    assert not states[0].endswith("?")
