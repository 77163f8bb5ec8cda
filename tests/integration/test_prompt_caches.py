"""Cache hints at simulated vendors that keep prefixes: what is written once is read later."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.dialects.generate_content.calling import caching
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    SupervisorCanister,
    Usage,
    UserCanister,
)
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.google import produce_provider
from vibe_llms.telemetry.cached_turns import survey_cached_turns
from vibe_llms.testing.contracts.worlds import World
from vibe_llms.testing.simulator import Simulator

LONG = "These are the rules of the house, which everybody reads again and again. " * 100
VENDORS = {
    "anthropic": ("", "claude-sonnet-4-6"),
    "openai_conversations": ("/v1", "gpt-5.6-sol"),
    "openai_responses": ("/v1", "gpt-5.6-sol"),
}
pytestmark = pytest.mark.slow


@asynccontextmanager
async def visit(
    vendor: str, directory: Path, name: str = ""
) -> AsyncIterator[tuple[World, Simulator]]:
    path, model_name = VENDORS[vendor]
    async with Simulator() as simulator:
        world = World(
            module=f"vibe_llms.providers.{vendor}",
            name=vendor,
            model_name=name or model_name,
            settings={"base_url": simulator.url + path, "api_key": "key"},
            directory=directory,
        )
        async with world:
            yield world, simulator


async def ask(world: World, *canisters: AnyCanister, cache: CacheHint | None = None) -> Usage:
    """Return the usage of an answer without losses."""
    response = await world.ask(Request(canisters=canisters, cache=cache))
    assert response.losses == ()
    assert response.usage is not None
    return response.usage


@pytest.mark.parametrize("vendor", VENDORS)
async def test_marked_instructions_are_read_from_the_cache(vendor: str, tmp_path: Path) -> None:
    """By any conversation that begins with them."""
    rules = SupervisorCanister([LONG, CacheHint()])
    async with visit(vendor, tmp_path) as (world, _):
        first = await ask(world, rules, UserCanister("May I?"))
        second = await ask(world, rules, UserCanister("Must I?"))
    assert not first.cache_read_tokens
    assert (first.cache_write_tokens or 0) > 1024
    assert (second.cache_read_tokens or 0) > 1024


async def test_a_lifetime_is_held(tmp_path: Path) -> None:
    """Five minutes by default, an hour if asked."""
    async with visit("anthropic", tmp_path) as (world, simulator):
        for lifetime, bucket in (
            (None, "cache_write_tokens"),
            ("1h", "cache_write_long_tokens"),
        ):
            rules = SupervisorCanister([f"{lifetime} {LONG}", CacheHint(lifetime)])
            assert getattr(await ask(world, rules, UserCanister("a")), bucket)
            simulator.let_pass(290)
            assert (await ask(world, rules, UserCanister("b"))).cache_read_tokens
            simulator.let_pass(310)
            assert bool((await ask(world, rules, UserCanister("c"))).cache_read_tokens) == (
                lifetime is not None
            )
            simulator.let_pass(3700)
            assert not (await ask(world, rules, UserCanister("d"))).cache_read_tokens


async def test_a_growing_conversation_is_cached_turn_by_turn(tmp_path: Path) -> None:
    """With one hint for the whole request; each turn reads what the one before has written."""
    talk: list[AnyCanister] = [SupervisorCanister(LONG)]
    async with visit("anthropic", tmp_path) as (world, simulator):
        for number in range(12):  # long enough for the reuse of translations
            if number == 8:
                simulator.let_pass(600)
            talk.append(UserCanister(f"Question {number}"))
            response = await world.ask(Request(canisters=talk, cache=CacheHint()))
            talk += response.canisters
    turns = survey_cached_turns(talk)
    assert [turn.is_broken for turn in turns] == [number == 8 for number in range(12)]
    for before, turn in itertools.pairwise(turns):
        if not turn.is_broken:
            assert turn.read == (before.read or 0) + (before.written or 0)
        assert turn.uncached == 0


async def test_many_marks_are_accepted(tmp_path: Path) -> None:
    """Also when earlier messages come from the store of translations."""
    talk: list[AnyCanister] = [SupervisorCanister([LONG, CacheHint()])]
    async with visit("anthropic", tmp_path) as (world, simulator):
        for number in range(14):
            talk += [UserCanister([f"Question {number}", CacheHint()])]
            response = await world.ask(Request(canisters=talk))
            talk += response.canisters
        read = response.usage.cache_read_tokens if response.usage else 0
    assert read is not None
    assert read > 1024
    assert len(response.losses) == 14 + 1 - 4
    assert all("the oldest" in loss.reason for loss in response.losses)
    assert str(simulator.requests[-1].body).count("cache_control") == 4


async def test_a_key_separates_the_caches_of_openai(tmp_path: Path) -> None:
    rules = SupervisorCanister(LONG)
    async with visit("openai_responses", tmp_path) as (world, _):
        await ask(world, rules, UserCanister("a"), cache=CacheHint(key="one"))
        same = await ask(world, rules, UserCanister("b"), cache=CacheHint(key="one"))
        other = await ask(world, rules, UserCanister("c"), cache=CacheHint(key="two"))
    assert same.cache_read_tokens
    assert not other.cache_read_tokens


@pytest.mark.parametrize("vendor", ["openai_conversations", "openai_responses"])
async def test_an_older_model_reads_without_marks(vendor: str, tmp_path: Path) -> None:
    """It would refuse breakpoints; the hint is reported as a loss of form."""
    rules = SupervisorCanister([LONG, CacheHint("30m")])
    async with visit(vendor, tmp_path, "gpt-5.1") as (world, _):
        for question in ("a", "b"):
            response = await world.ask(Request(canisters=[rules, UserCanister(question)]))
    assert response.usage is not None
    assert response.usage.cache_read_tokens
    (loss,) = response.losses
    assert (loss.path, str(loss.grade)) == ("canisters[0].content[1]", "form")


async def test_a_changed_model_shows_as_the_cause(tmp_path: Path) -> None:
    """From the canisters alone, as they are stored."""
    talk: list[AnyCanister] = [SupervisorCanister([LONG, CacheHint()])]
    async with Simulator() as simulator:
        for name in ("claude-sonnet-4-6", "claude-sonnet-4-6", "claude-haiku-4-5"):
            world = World(
                module="vibe_llms.providers.anthropic",
                name="anthropic",
                model_name=name,
                settings={"base_url": simulator.url, "api_key": "key"},
                directory=tmp_path,
            )
            async with world:
                talk.append(UserCanister("Well?"))
                talk += (await world.ask(Request(canisters=talk))).canisters
    first, second, third = survey_cached_turns(talk)
    assert not first.is_broken
    assert not second.is_broken
    assert third.causes == ("the model changed from anthropic:claude-sonnet-4-6",)
    assert isinstance(talk[-1], AssistantCanister)


@asynccontextmanager
async def visit_google(
    simulator: Simulator, directory: Path, name: str = "gemini-2.5-flash"
) -> AsyncIterator[World]:
    world = World(
        module="vibe_llms.providers.google",
        name="google",
        model_name=name,
        settings={"base_url": simulator.url, "api_key": "key"},
        directory=directory,
    )
    async with world:
        yield world


def list_calls(simulator: Simulator) -> list[str]:
    """Return the methods and the ends of the paths of the received requests."""
    return [f"{each.method} {each.path.rpartition('/')[2]}" for each in simulator.requests]


ANSWERED = "POST gemini-2.5-flash:generateContent"
LOOKED, CREATED = "GET cachedContents", "POST cachedContents"
RULES = SupervisorCanister([LONG * 2, CacheHint("5m")])


async def converse(world: World, *questions: str, **fields: Any) -> list[Response]:
    """Ask questions after the same rules, each in a new conversation."""
    return [
        await world.ask(Request(canisters=[RULES, UserCanister(question)], **fields), stream=False)
        for question in questions
    ]


async def test_google_gets_a_prefix_once(tmp_path: Path) -> None:
    """Also by several programs; what is behind the mark is sent with each request."""
    async with Simulator() as simulator:
        async with visit_google(simulator, tmp_path) as world:
            responses = await converse(world, "a", "b", strict=True)
        async with visit_google(simulator, tmp_path) as world:
            responses += await converse(world, "c")
        calls = list_calls(simulator)
        created, sent = simulator.requests[1].body, simulator.requests[-1].body
    assert calls == [LOOKED, CREATED, ANSWERED, ANSWERED, LOOKED, ANSWERED]
    assert created["ttl"] == "300s"
    assert "contents" not in created
    assert sent["contents"] == [{"role": "user", "parts": [{"text": "c"}]}]
    assert sent["cachedContent"].startswith("cachedContents/")
    assert "systemInstruction" not in sent
    for response in responses:
        assert response.losses == ()
        assert response.usage is not None
        assert (response.usage.cache_read_tokens or 0) > 2048


async def test_a_mark_within_a_message_splits_it(tmp_path: Path) -> None:
    """The tools are in the prefix, too."""
    tool = InvocableDescription(name="f", description="d", schema={"type": "object"})
    question = UserCanister([LONG * 2, CacheHint(), "What is it?", CacheHint(), "Well?"])
    async with Simulator() as simulator, visit_google(simulator, tmp_path) as world:
        request = Request(canisters=[question], invocables=[tool])
        response = await world.ask(request)
        created, sent = simulator.requests[1].body, simulator.requests[-1].body
    assert [part["text"] for part in created["contents"][0]["parts"]] == [LONG * 2]
    assert created["tools"]
    assert "ttl" not in created
    assert "tools" not in sent
    assert [part["text"] for part in sent["contents"][0]["parts"]] == ["What is it?", "Well?"]
    (loss,) = response.losses
    assert loss.path == "canisters[0].content[3]"


async def test_a_short_prefix_is_not_created(tmp_path: Path) -> None:
    """Google would refuse it; the loss names the minimum."""
    question = UserCanister(["Short.", CacheHint(), "Well?"])
    async with Simulator() as simulator, visit_google(simulator, tmp_path) as world:
        response = await world.ask(Request(canisters=[question]), stream=False)
        calls = list_calls(simulator)
    assert calls == [ANSWERED]
    (loss,) = response.losses
    assert "minimum is 2,048" in loss.reason
    assert loss.path == "canisters[0].content[1]"


async def test_a_refused_prefix_is_sent_with_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not offered again. Google's minimum is larger than expected here."""
    monkeypatch.setattr(caching, "_USUAL_MINIMUM", 10)
    rules = SupervisorCanister(["Be brief. " * 20, CacheHint()])
    async with (
        Simulator() as simulator,
        visit_google(simulator, tmp_path, "gemini-2.0-flash") as world,
    ):
        for question in ("a", "b"):
            request = Request(canisters=[rules, UserCanister(question)])
            (loss,) = (await world.ask(request, stream=False)).losses
            assert "too small" in loss.reason
        calls = list_calls(simulator)
        sent = simulator.requests[-1].body
    assert calls.count(CREATED) == 1
    assert "cachedContent" not in sent
    assert "systemInstruction" in sent


@pytest.mark.parametrize("answer", [b"[1]", b'{"name": "cachedContents/1"}', b"<html>"])
async def test_an_invalid_description_of_a_prefix_fails_no_request(
    tmp_path: Path, answer: bytes
) -> None:
    good = {"candidates": [{"content": {"parts": [{"text": "Yes."}]}, "finishReason": "STOP"}]}
    counterpart = Counterpart(
        [answer_json(b"{}"), answer_json(answer), answer_json(json.dumps(good).encode())]
    )
    provider: Any = produce_provider(produce_context("google", tmp_path, api_key="key"))
    provider.use_transport(counterpart.transport)
    model = await provider.produce_client().access_model("gemini-2.5-flash")

    request = Request(canisters=[RULES, UserCanister("Really?")])
    response = await model.converse(request, stream=False)

    assert response.text == "Yes."
    assert [loss.path for loss in response.losses] == ["canisters[0].content[1]"]


async def test_an_ended_prefix_is_created_again(tmp_path: Path) -> None:
    """Also if it ended earlier than promised: the request is sent again, with a new one."""
    async with Simulator() as simulator, visit_google(simulator, tmp_path) as world:
        await converse(world, "a")
        simulator.let_pass(400)
        (response,) = await converse(world, "b")
        calls = list_calls(simulator)
    assert calls == [LOOKED, CREATED, ANSWERED, ANSWERED, LOOKED, CREATED, ANSWERED]
    assert response.losses == ()
    assert response.usage is not None
    assert response.usage.cache_read_tokens


async def test_requests_at_once_create_one_prefix(tmp_path: Path) -> None:
    """Each of them would pay for its own otherwise."""
    async with Simulator() as simulator, visit_google(simulator, tmp_path) as world:
        requests = (Request(canisters=[RULES, UserCanister(each)]) for each in "abcd")
        await asyncio.gather(*(world.ask(each, stream=False) for each in requests))
        calls = list_calls(simulator)
    assert (calls.count(LOOKED), calls.count(CREATED), calls.count(ANSWERED)) == (1, 1, 4)


async def test_vertex_gets_a_prefix_once(tmp_path: Path) -> None:
    """Its cached contents lie below the project and the location."""
    settings = {"cloud": "vertex", "project": "p", "location": "global", "api_key": "token"}
    async with Simulator() as simulator:
        world = World(
            module="vibe_llms.providers.google",
            name="google",
            model_name="gemini-2.5-flash",
            settings={**settings, "base_url": simulator.url},
            directory=tmp_path,
        )
        async with world:
            responses = await converse(world, "a", "b", strict=True)
        calls = list_calls(simulator)
        created, sent = simulator.requests[1], simulator.requests[-1].body
    assert calls == [LOOKED, CREATED, ANSWERED, ANSWERED]
    parent = "projects/p/locations/global"
    assert created.path == f"/v1beta1/{parent}/cachedContents"
    assert created.body["model"] == f"{parent}/publishers/google/models/gemini-2.5-flash"
    assert sent["cachedContent"].startswith(f"{parent}/cachedContents/")
    for response in responses:
        assert response.losses == ()
        assert response.usage is not None
        assert (response.usage.cache_read_tokens or 0) > 2048
