"""Headers of passed requests: kept for the usual ones, made anew for all others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.foundation.secrets import Secret
from vibe_llms.providers.openai_responses import produce_provider as produce_openai
from vibe_llms.providers.passed_headers import PassedHeaders
from vibe_llms.providers.remote_clients import RemoteClient
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


@pytest.mark.parametrize("place", ["variable", "file"])
async def test_keys_that_are_read_again_keep_headers_and_scrubbers(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_key(key: str) -> None:
        if place == "file":
            (tmp_path / "key").write_text(key)
        else:
            monkeypatch.setenv("OPENAI_API_KEY", key)

    set_key("canary-key-number-one")
    settings = {"api_key_file": str(tmp_path / "key")} if place == "file" else {}
    counterpart = Counterpart([answer_json(b'{"key": "canary-key-number-two"}') for _ in range(6)])
    provider = produce_openai(produce_context("openai", tmp_path, **settings))
    provider.use_transport(counterpart.transport)
    survey = mock.create_autospec(RemoteClient.list_secrets, side_effect=RemoteClient.list_secrets)
    monkeypatch.setattr(RemoteClient, "list_secrets", survey)
    client = provider.produce_client()
    compose = mock.Mock(wraps=client.vendor.compose_headers)
    monkeypatch.setattr(client.vendor, "compose_headers", compose)

    bodies = []
    for key in ("canary-key-number-one", "canary-key-number-two"):
        set_key(key)
        for _ in range(3):
            exchange = await client.pass_through("POST", "/chat/completions", b"{}", JSON)
            bodies.append(await exchange.read())
    await client.close()

    sent = [reveal(request.headers)["authorization"][-3:] for request in counterpart.requests]
    assert sent == ["one"] * 3 + ["two"] * 3
    assert [b"two" in body for body in bodies] == [True] * 3 + [False] * 3
    assert (compose.call_count, survey.call_count) == (2, 2)


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
