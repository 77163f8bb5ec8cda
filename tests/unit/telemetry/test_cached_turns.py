"""The use of prompt caches, turn by turn, and what broke a prefix."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from vibe_llms.engine.patterns import digest_pattern
from vibe_llms.events.engine import GenerationFinishedEvent, GenerationStartedEvent
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    StopReason,
    SupervisorCanister,
    Usage,
    UserCanister,
)
from vibe_llms.telemetry.cached_turns import CachedTurn, survey_cached_turns

START = datetime(2026, 11, 1, 12, tzinfo=UTC)
CLAUDE = {"provider": "anthropic", "model": "claude-sonnet-4-5", "protocol": "messages"}
GPT = {"provider": "openai_responses", "model": "gpt-5.1", "protocol": "responses"}
FIRST = {"input_tokens": 100, "cache_read_tokens": 0, "cache_write_tokens": 9000}
LOST = {"input_tokens": 10, "cache_read_tokens": 0, "cache_write_tokens": 9300}


def ask(
    minute: float, usage: Mapping[str, int], origin: Mapping[str, Any] = CLAUDE
) -> list[AnyCanister]:
    """Return a question and its answer, at a minute."""
    at = START + timedelta(minutes=minute)
    answered = Origin(**origin, usage=Usage(**usage, output_tokens=50))
    question = UserCanister(f"Question {minute}", timestamp=at)
    return [question, AssistantCanister("Answer.", timestamp=at, origin=answered)]


def survey(*parts: list[AnyCanister], events: list[Any] | None = None) -> list[CachedTurn]:
    return survey_cached_turns([each for part in parts for each in part], events or [])


def log(parts: list[list[AnyCanister]], *facts: tuple[Mapping[str, str], int]) -> list[Any]:
    """Return the events of turns: their digests, and how many messages were left out."""
    events: list[Any] = []
    for turn, (part, (pattern, omitted)) in enumerate(zip(parts, facts, strict=True), 1):
        key = part[0].id
        events += [
            GenerationStartedEvent(key=key, turn=turn, model="m", pattern=pattern),
            GenerationFinishedEvent(
                key=key, turn=turn, model="m", provider="p", canisters=1,
                stop_reason=StopReason.ANSWERED, omitted=omitted,
            ),
        ]  # fmt: skip
    return events


def test_a_turn_has_its_tokens_and_its_share() -> None:
    found = {"input_tokens": 20, "cache_read_tokens": 9000, "cache_write_tokens": 980}
    first, second = survey(ask(0, FIRST), ask(1, found))
    assert (first.read, first.written, first.uncached, first.share) == (0, 9000, 100, 0.0)
    assert (second.read, second.written, second.uncached) == (9000, 980, 20)
    assert second.share == 0.9
    assert (second.index, second.model) == (3, "anthropic:claude-sonnet-4-5")
    assert not second.is_broken


def test_the_saving_is_the_difference_of_two_prices() -> None:
    """Claude Sonnet costs $3 per million tokens, a quarter more to write, a tenth to read."""
    first, second = survey(ask(0, FIRST), ask(1, {"cache_read_tokens": 9000, "input_tokens": 0}))
    assert first.saved == Decimal(-9000) * 3 / 4 / 10**6
    assert second.saved == Decimal(9000) * 3 * 9 / 10 / 10**6


def test_the_saving_of_an_unpriced_model_is_unknown() -> None:
    (turn,) = survey(ask(0, {"cache_read_tokens": 9}, {"provider": "x", "model": "m"}))
    assert turn.saved is None


def test_unreported_usage_is_unknown() -> None:
    first, second = survey(ask(0, {"input_tokens": 9000}), ask(1, {}))
    assert (first.read, first.written, first.share, first.uncached) == (None, None, None, 9000)
    assert second.uncached is None
    assert not second.is_broken


def test_answers_in_several_canisters_are_one_turn() -> None:
    origin = Origin(**CLAUDE, usage=Usage(input_tokens=3, cache_read_tokens=0))
    turns = survey(
        [
            UserCanister("a"),
            AssistantCanister("b", origin=origin, turn_id="t"),
            InvocationCanister(invocation_id="c", name="f", origin=origin, turn_id="t"),
        ]
    )
    assert [turn.index for turn in turns] == [1]


def test_another_model_breaks_the_prefix() -> None:
    *_, turn = survey(ask(0, FIRST), ask(1, LOST, {**CLAUDE, "model": "claude-haiku-4-5"}))
    assert turn.is_broken
    assert turn.causes == ("the model changed from anthropic:claude-sonnet-4-5",)


def test_time_breaks_the_prefix() -> None:
    *_, turn = survey(ask(0, FIRST), ask(9, LOST))
    assert turn.causes == ("9 min passed, and the vendor keeps a prefix for 5 min",)


def test_a_longer_lifetime_is_known_from_the_usage() -> None:
    long = {"input_tokens": 1, "cache_read_tokens": 0, "cache_write_long_tokens": 9000}
    *_, turn = survey(ask(0, long), ask(30, LOST))
    assert turn.causes == ("unknown; the vendor may have evicted the prefix",)
    *_, turn = survey(ask(0, long), ask(90, LOST))
    assert turn.causes == ("1 h 30 min passed, and the vendor keeps a prefix for 1 h 0 min",)


def test_added_instructions_break_the_prefix() -> None:
    added: list[AnyCanister] = [SupervisorCanister("Be brief.")]
    *_, turn = survey(ask(0, FIRST), added, ask(1, LOST))
    assert turn.causes == ("instructions were added",)


@pytest.mark.parametrize("name", ["tools", "settings"])
def test_changed_digests_of_the_log_break_the_prefix(name: str) -> None:
    parts = [ask(0, FIRST), ask(1, LOST)]
    same = {"tools": "a", "settings": "b"}
    *_, turn = survey(*parts, events=log(parts, (same, 0), ({**same, name: "c"}, 0)))
    assert turn.causes == (f"the {name} changed",)
    *_, turn = survey(*parts, events=log(parts, (same, 0), ({}, 0)))  # as before
    assert turn.causes == ("unknown; the vendor may have evicted the prefix",)


def test_tools_of_a_run_were_added_to_a_conversation_without_one() -> None:
    """An answer without a run is not in the log; a run without tools changes nothing."""
    parts = [ask(0, FIRST), ask(1, LOST)]
    *_, turn = survey(*parts, events=log(parts, ({}, 0), ({"tools": "a"}, 0))[2:])
    assert turn.causes == ("tools were added",)
    *_, turn = survey(*parts, events=log(parts, ({"tools": "a"}, 0), ({}, 0))[:2])
    assert turn.causes == ("tools were removed",)
    none = digest_pattern({}, ())
    *_, turn = survey(*parts, events=log(parts, ({}, 0), (none, 0))[2:])
    assert turn.causes == ("unknown; the vendor may have evicted the prefix",)


def test_omitted_messages_break_the_prefix() -> None:
    parts = [ask(0, FIRST), ask(1, LOST)]
    *_, turn = survey(*parts, events=log(parts, ({}, 0), ({}, 6)))
    assert turn.causes == ("earlier messages were left out of the request (6)",)
    *_, turn = survey(*parts, events=log(parts, ({}, 6), ({}, 6)))
    assert "left out" not in turn.causes[0]


def test_without_a_log_a_shorter_request_shows_that_messages_were_omitted() -> None:
    *_, turn = survey(ask(0, FIRST), ask(1, {"input_tokens": 500, "cache_read_tokens": 0}))
    assert turn.causes == (
        "earlier messages were left out: the request was shorter than the one before",
    )


def test_a_vendor_that_reports_only_reads() -> None:
    """OpenAI's older models cache by themselves; the first answer says nothing of it."""
    big, found = {"input_tokens": 3000}, {"input_tokens": 500, "cache_read_tokens": 2944}
    missed = {"input_tokens": 3500, "cache_read_tokens": 0}
    _, second, third, fourth = survey(
        ask(0, big, GPT), ask(1, found, GPT), ask(2, missed, GPT), ask(60, missed, GPT)
    )
    assert not second.is_broken
    assert third.causes == ("unknown; the prefix may be shorter than the model's minimum",)
    assert fourth.causes == ("58 min passed, and the vendor keeps a prefix for 30 min",)


def test_a_short_conversation_has_no_prefix_to_lose() -> None:
    usage = {"input_tokens": 30, "cache_read_tokens": 0}
    assert not any(turn.is_broken for turn in survey(ask(0, usage), ask(9, usage)))
