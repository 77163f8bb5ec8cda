"""Counts for metrics equal those of the whole usage, and unusual reports are left to it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from vibe_llms.daemons.gateway.token_counts import count_tokens
from vibe_llms.daemons.gateway.usage_extraction import read_usage

_SMALL = (0, 3, 9)


def count_whole(protocol: str, body: bytes) -> tuple[int, int, int]:
    """Returns the counts of the whole usage."""
    usage = read_usage(protocol, body)
    assert usage is not None
    return (
        usage.total_input_tokens or 0,
        usage.total_output_tokens or 0,
        usage.cache_read_tokens or 0,
    )


def survey_openai(input_name: str, output_name: str) -> list[dict[str, Any]]:
    reports = []
    for cached, audio, writes, thought, excess in itertools.product(
        (None, *_SMALL), _SMALL, _SMALL, _SMALL, (None, 0, 3, -4)
    ):
        report: dict[str, Any] = {
            input_name: 8,
            output_name: 5,
            f"{input_name}_details": {
                "cached_tokens": cached,
                "audio_tokens": audio,
                "cache_write_tokens": writes,
            },
            f"{output_name}_details": {"reasoning_tokens": thought},
        }
        if excess is not None:
            report["total_tokens"] = 13 + excess
        reports.append(report)
    return reports


def survey_lifetimes() -> list[dict[str, int] | None]:
    return [
        None,
        *(
            {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long}
            for short, long in itertools.product(_SMALL, _SMALL)
        ),
        {"ephemeral_1h_input_tokens": 3},
    ]


def survey_messages() -> list[dict[str, Any]]:
    return [
        {
            "input_tokens": 8,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": writes,
            "cache_creation": lifetimes,
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": thought},
        }
        for cached, writes, lifetimes, thought in itertools.product(
            (None, *_SMALL), (None, *_SMALL), survey_lifetimes(), _SMALL
        )
    ]


@pytest.mark.parametrize(
    ("protocol", "reports"),
    [
        ("chat_completions", survey_openai("prompt_tokens", "completion_tokens")),
        ("responses", survey_openai("input_tokens", "output_tokens")),
        ("messages", survey_messages()),
    ],
    ids=["chat_completions", "responses", "messages"],
)
def test_counts_are_those_of_the_whole_usage(protocol: str, reports: list[dict[str, Any]]) -> None:
    counted = 0
    for report in reports:
        body = json.dumps({"id": "x", "usage": report}).encode()
        counts = count_tokens(protocol, body)
        if counts is not None:
            assert counts == count_whole(protocol, body), report
            counted += 1
    assert counted > len(reports) // 10


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 9, "completion_tokens": 1},
        {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10, "cost": 0.1},
        {
            "prompt_tokens": 9,
            "completion_tokens": 8,
            "total_tokens": 17,
            "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 3, "rejected_prediction_tokens": 0},
        },
    ],
)
def test_usual_reports_are_counted(usage: dict[str, Any]) -> None:
    body = json.dumps({"usage": usage}).encode()
    assert count_tokens("chat_completions", body) == count_whole("chat_completions", body)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"usage": null}',
        b'{"usage": {"prompt_tokens": 9.0}}',
        b'{"usage": {"prompt_tokens": -1}}',
        b'{"usage": {"prompt_tokens": true}}',
        b'{"usage": {"prompt_tokens": 9, "reasoning_tokens": 3}}',
        b'{"usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 3}}',
        b'{"usage": {"prompt_tokens": 9, "prompt_token_details": {"cached_tokens": 3}}}',
        b'{"usage": {"input_tokens": 9}}',
        b'{"usage": {"prompt_tokens": 9}',
        b'{"choices": [{"usage": {"prompt_tokens": 9}}]}',
    ],
)
def test_unusual_reports_are_not_counted(body: bytes) -> None:
    assert count_tokens("chat_completions", body) is None


def test_other_protocols_are_not_counted() -> None:
    assert count_tokens("generate_content", b'{"usage": {"prompt_tokens": 9}}') is None
