"""Headers of passed requests: kept for the usual ones, made anew for all others."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from vibe_llms.foundation.secrets import Secret
from vibe_llms.providers.passed_headers import PassedHeaders
from vibe_llms.wire.http.heads import compose_head, parse_target
from vibe_llms.wire.tracing import TRACE

JSON = {"content-type": "application/json"}


def produce(headers: Mapping[str, str | Secret] | None = None) -> PassedHeaders:
    def compose(key: Secret | None, native: object) -> dict[str, Any]:
        return {"x-version": "1", "authorization": key}

    settings = SimpleNamespace(headers=headers or {})
    vendor: Any = SimpleNamespace(compose_headers=compose, settings=settings)
    return PassedHeaders(vendor)


def reveal(headers: Mapping[str, str | Secret]) -> dict[str, str]:
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in headers.items()
    }


def test_equal_requests_have_the_same_headers_until_the_key_changes() -> None:
    passed, key = produce(), Secret("one")
    first = passed.merge(key, JSON)

    assert passed.merge(key, dict(JSON)) is first
    assert reveal(passed.merge(Secret("two"), JSON))["authorization"] == "two"
    assert reveal(passed.merge(key, JSON)) == reveal(first)


def test_clients_override_what_is_not_secret() -> None:
    passed = produce({"x-team": Secret("ours")})
    asked = {"x-version": "2", "x-team": "theirs", "authorization": "theirs"}

    merged = reveal(passed.merge(Secret("one"), asked))

    assert merged == {
        "accept": "*/*",
        "x-version": "2",
        "x-team": "ours",
        "authorization": "one",
    }
    assert reveal(passed.merge(Secret("one"), {**asked, "x-version": "3"}))["x-version"] == "3"


@pytest.mark.parametrize("is_traced", [False, True])
def test_long_and_traced_headers_are_not_kept(is_traced: bool) -> None:
    passed, key = produce(), Secret("one")
    asked = JSON if is_traced else {"x-note": "n" * 600}
    token = TRACE.set({"traceparent": "00-1"} if is_traced else {})
    try:
        assert passed.merge(key, asked) is not passed.merge(key, asked)
    finally:
        TRACE.reset(token)


def test_as_many_as_clients_send_are_not_kept() -> None:
    passed, key = produce(), Secret("one")
    for number in range(1_000):
        passed.merge(key, {"x-request": str(number)})
    assert len(passed._kept) <= 64


def test_a_head_is_written_for_its_own_target_alone() -> None:
    headers = produce().merge(Secret("one"), JSON)
    targets = [parse_target(f"http://a.example/{path}") for path in "xyx"]

    heads = [compose_head("POST", target, headers, 7) for target in targets]

    plain = [compose_head("POST", target, dict(headers), 7) for target in targets]
    assert heads == plain
    assert compose_head("POST", targets[2], headers, 12) == plain[2].replace(b": 7\r", b": 12\r")
    assert compose_head("GET", targets[2], headers, 0) == compose_head(
        "GET", targets[2], dict(headers), 0
    )
    assert compose_head("POST", targets[2], headers, 7, proxy=targets[0]) == compose_head(
        "POST", targets[2], dict(headers), 7, proxy=targets[0]
    )
