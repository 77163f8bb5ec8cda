"""Requests that make no sense, or are for what is others', at an agents daemon of two people."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import attrs
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from yarl import URL

from support.daemons.run_daemons import Daemon, serving
from support.gateways.authorizers import FriendAuthorizer
from support.gateways.gateway_nonsense import distort, draw_headers, garble
from support.quality.properties import examples
from support.runs.acting import invoke, say
from vibe_llms import Conversation
from vibe_llms.agents.remote import connect
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.invocables import produce_invoker
from vibe_llms.messages.contents import FileContent
from vibe_llms.testing.clocks import HurriedClock

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SECRET: Final = "Rosebud"
ANN, BOB = {"Authorization": "Bearer ann"}, {"Authorization": "Bearer bob"}
HOSTILE: Final = "\n\ndata: {}\n\nevent: run.deleted\r\rid: 999\u2028\x00\r\n: \ufeff\ud83d\ude42"


def pay(to: str) -> str:
    """Pays."""
    return to


PAY = produce_invoker(pay, effect="once", needs_approval=True)


@attrs.frozen
class Place:
    """A daemon where Ann and Bob have runs.

    Attributes:
        names: What stands in braces in what is drawn.
        hidden: What is Ann's, and Bob must not be told unless he says it himself.
    """

    daemon: Daemon
    names: dict[str, str]
    hidden: tuple[str, ...]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """One daemon that outlives all nonsense."""
    folder = tmp_path_factory.mktemp("nonsense")
    async with serving(folder, PAY, seconds=3_000, authorizer=FriendAuthorizer()) as daemon:
        scripts = [f"scripted:{folder / who / 'script.toml'}" for who in ("ann", "bob")]
        daemon.premises.runs.application.restrict(scripts)
        runs = {}
        for who, key, word in (("ann", ANN, SECRET), ("bob", BOB, "Hello")):
            daemon.premises.folder = folder / who  # of the script
            daemon.premises.folder.mkdir()
            spec = daemon.premises.spec([invoke("pay", to=word)], [say(word)]).export()
            said = {**spec, "input": f"{word} {HOSTILE}"}
            status, run = await daemon.ask("POST", "/runs", said, **key, Idempotency_Key="same")
            assert status == 201
            await daemon.premises.wait(run["id"], "waiting", subject=who)
            runs[who] = run["id"]
        _, waiting = await daemon.ask("GET", f"/runs/{runs['ann']}/approvals", **ANN)
        (asked,) = waiting["data"]
        content = await asyncio.to_thread(add_content, daemon, runs["ann"])
        name = f"/conversations/{runs['ann']}"
        assert (await daemon.ask("PATCH", name, {"name": SECRET}, **ANN))[0] == 200
        names = {
            **runs,
            "digest": asked["request"]["digest"],
            "key": asked["key"],
            "content": content,
        }
        await stop(daemon, runs["bob"])
        yield Place(daemon, names, (SECRET, runs["ann"], asked["key"], content))


async def stop(daemon: Daemon, run_id: str) -> None:
    """Stop a run of Bob, and wait until it has stopped."""
    assert (await daemon.ask("POST", f"/runs/{run_id}/stop", **BOB))[0] == 200
    await daemon.premises.wait(run_id, "stopped", subject="bob")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def resting(place: Place) -> Place:
    """The daemon after the nonsense, which may have resumed Bob's run: it is stopped again."""
    await stop(place.daemon, place.names["bob"])
    return place


def add_content(daemon: Daemon, run_id: str) -> str:
    """Says something that is no text in a conversation; returns its id."""
    store = daemon.premises.store
    conversation = Conversation.restore(store, run_id)
    said = FileContent(data=SECRET.encode(), mime_type="text/plain", name=SECRET)
    conversation.add_user_message(said)
    conversation.save(store)
    return str(said.content_id)


BODIES: Final[tuple[tuple[str, str, Any], ...]] = (
    ("POST", "/runs", {"input": "Hello", "model": "scripted:echo", "limits": {"run_steps": 2}}),
    ("POST", "/runs", {"input": [{"role": "user", "content": "Hello"}], "model": "x:y"}),
    ("POST", "/runs/{run}/approvals", {"digest": "{digest}", "key": "{key}", "decision": "allow"}),
    (
        "POST",
        "/runs/{run}/approvals",
        {"digest": "{digest}", "decision": "edit", "arguments": "{}"},
    ),
    ("POST", "/runs/{run}/messages", {"content": "Hello", "role": "supervisor"}),
    ("POST", "/runs/{run}/stop", {"reason": "Because."}),
    ("POST", "/runs/{run}/detach", {}),
    ("POST", "/runs/{run}/fork", {"node": "P0", "visit": 1, "variables": {"a": "b"}}),
    ("POST", "/runs/{run}/fork", {}),
    ("PATCH", "/conversations/{run}", {"name": "Mine"}),
    ("POST", "/conversations/{run}/fork", {"from_index": 1}),
    (
        "POST",
        "/ag-ui",
        {
            "threadId": "{ann}",
            "runId": "r",
            "messages": [
                {"id": "1", "role": "user", "content": [{"type": "text", "text": "Hello"}]}
            ],
            "resume": [{"interruptId": "{key}:{digest}", "status": "resolved", "payload": True}],
            "forwardedProps": {"run": {"model": "scripted:echo", "limits": {"run_steps": 2}}},
        },
    ),
    (
        "POST",
        "/ai-sdk",
        {
            "id": "{ann}",
            "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}],
            "trigger": "submit-message",
            "messageId": None,
            "run": {"model": "scripted:echo", "limits": {"run_steps": 2}},
        },
    ),
)
PATHS: Final = (
    "/runs", "/runs/{run}", "/runs/{run}/events", "/runs/{run}/approvals", "/runs/{run}/flow",
    "/runs/{run}/resume", "/runs/{run}/nothing", "/conversations", "/conversations/{run}",
    "/conversations/{run}/export", "/conversations/{run}/contents/{content}", "/page/", "/page",
    "/page/../runs", "/runs/", "//runs", "/openapi.json", "/healthz", "/page/page.js", "/metrics",
)  # fmt: skip
METHODS: Final = ("GET", "GET", "GET", "GET", "HEAD", "POST", "PATCH", "PUT", "OPTIONS", "X")
RUNS: Final = (
    "{ann}", "{ann}", "{ann}", "{bob}", "none", "..", "%2e%2e", "%2e%2e%2f{ann}", "{ann}%00",
    "{ann}%2fevents", "x" * 3_000, "%ff", "*", "{ann}.", "{ann}%20", "", "ä", "\U0001f642", "null",
)  # fmt: skip
QUERIES: Final = ("state", "limit", "after", "follow", "query", "format", "key", "subject", "id")
VALUES: Final = (
    "", "true", "false", "{ann}", "{bob}", "0", "-1", "1", "500", "501", "9" * 30, "\u0663", "x",
    "%00", "%ff", SECRET, "waiting", "html", "json", "../..", "%", "ann", "*", "a b", "%22", "OR",
)  # fmt: skip


def draw(dice: random.Random, names: dict[str, str]) -> tuple[str, str, dict[str, str], bytes]:
    """Draws a request of Bob: method, path, headers and body, of which anything may be wrong."""
    body = b""
    if dice.random() < 0.5:
        method, path, sound = dice.choice(BODIES)
        text = json.dumps(distort(dice, sound))
        body = fill(text, names).encode("utf-8", "surrogatepass")
        body = garble(dice, body) if dice.random() < 0.2 else body
    else:
        method, path = dice.choice(METHODS), dice.choice(PATHS)
    path = path.replace("{run}", dice.choice(RUNS))
    if dice.random() < 0.4:
        given = (f"{dice.choice(QUERIES)}={dice.choice(VALUES)}" for _ in range(dice.randint(1, 3)))
        path += "?" + "&".join(given)
    headers = {"content-type": "application/json"}
    if dice.random() < 0.4:
        headers |= draw_headers(dice)
    if dice.random() < 0.3:
        headers["last-event-id"] = dice.choice(VALUES)
    return method, fill(path, names), headers | {"authorization": "Bearer bob"}, body


def fill(text: str, names: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), text)


async def ask(
    daemon: Daemon, method: str, path: str, headers: dict[str, str], body: bytes
) -> tuple[int, str, bytes]:
    """Returns status, media type and body, of a stream its beginning; 0 where nothing was sent."""
    url = URL(daemon.url + path, encoded=True)
    try:
        async with daemon.session.request(
            method, url, data=body, headers=headers, allow_redirects=False
        ) as answer:
            kind = answer.content_type
            if kind == "text/event-stream":
                data = await answer.content.readany() if method != "HEAD" else b""
            else:
                data = await answer.read()
            return answer.status, kind, data
    except (ValueError, aiohttp.ClientError):
        return 0, "", b""  # it cannot be said in HTTP, or is hung up on


@pytest.mark.parametrize("requests", [400, pytest.param(5_000, marks=pytest.mark.slow)])
async def test_somebody_else_is_told_nothing_and_always_something(
    place: Place, requests: int
) -> None:
    for number in range(requests):
        await check_nonsense(place, random.Random(f"{requests} {number}"))


async def check_nonsense(place: Place, dice: random.Random) -> None:
    """Has Bob ask something: he is answered clearly, and told nothing of Ann."""
    method, path, headers, body = draw(dice, place.names)
    said = f"{method} {path} {headers} {body!r}"
    before = count(place)
    status, kind, data = await ask(place.daemon, method, path, headers, body)
    told = data.decode("utf-8", "replace")
    assert status < 500, (said, told)
    if status >= 400 and data and kind == "application/json":
        error = json.loads(data)["error"]
        assert error["message"], (said, told)
        assert isinstance(error["type"], str)
    for each in place.hidden:
        assert each in said or each not in told, (said, status, told)
    assert count(place) == before, said


def count(place: Place) -> tuple[int, str | None, int]:
    """Returns what would change if somebody had said something to what is Ann's."""
    store, identity = place.daemon.premises.store, place.names["ann"]
    last = store.open_log(identity).read_last()
    assert last is not None
    metadata = store.read_metadata(identity)
    return last.sequence, metadata.name, len(store.read(identity).canisters)


def parse_events(data: bytes) -> list[tuple[str, str, str]]:
    """Reads an event stream as browsers do: id, event and data of each.

    https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
    """
    found, last, fields = [], "", {"event": "", "data": ""}
    text = data.decode("utf-8").removeprefix("\ufeff")
    for line in re.split("\r\n|\n|\r", text):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if fields["data"]:
                found.append((last, fields["event"], fields["data"].removesuffix("\n")))
            fields = {"event": "", "data": ""}
        elif name == "data":
            fields["data"] += value + "\n"
        elif name == "event":
            fields["event"] = value
        elif name == "id" and "\0" not in value:
            last = value
    return found


@pytest.mark.slow
@given(
    after=st.one_of(st.integers(0, 12).map(str), st.text("0123456789-+ .exa\u0663", max_size=9)),
    in_header=st.booleans(),
)
@example(after="0", in_header=True)
@example(after="00003", in_header=True)
@example(after="\u0663", in_header=False)
@settings(examples(120), suppress_health_check=[*HealthCheck])
async def test_a_stream_goes_on_behind_any_event_and_behind_nothing_else(
    resting: Place, after: str, in_header: bool
) -> None:
    """Whatever was said in the run: a browser reads the lines of the log, each once."""
    place = resting
    run_id = place.names["bob"]
    url = f"{place.daemon.url}/runs/{run_id}/events?follow=false"
    headers = {**BOB, "Last-Event-ID": after} if in_header else BOB
    url += "" if in_header else f"&{urlencode({'after': after})}"
    lines = place.daemon.premises.store.open_log(run_id).read()
    try:
        async with place.daemon.session.get(url, headers=headers) as answer:
            status, data = answer.status, await answer.read()
    except (ValueError, aiohttp.ClientError):
        return  # it cannot be said in HTTP
    wanted = after.strip() if in_header else after
    if wanted and not (wanted.isascii() and wanted.isdigit()):
        assert status == 400
        return
    number = int(wanted or "0")
    if number > len(lines):
        assert status == 409
        return
    events = parse_events(data)
    assert [int(identity) for identity, _, _ in events] == [*range(number + 1, len(lines) + 1)]
    told = [json.loads(data) for _, _, data in events]
    assert [each["sequence"] for each in told] == [each.sequence for each in lines[number:]]
    if not number:
        first = told[0]["event"]["canisters"][0]["content"][0]["text"]
        assert HOSTILE.encode("utf-16", "surrogatepass").decode("utf-16") in first


@attrs.define
class Forger:
    """Serves one run, whose event stream is not as it was, the first time.

    Attributes:
        pieces: What is sent then, piece by piece.
        whole: What is sent each time after.
        summary: Where the run stands.
    """

    whole: bytes
    summary: bytes
    pieces: list[bytes] = attrs.field(factory=list)

    async def find(self, request: web.Request) -> web.Response:
        return web.Response(body=self.summary, content_type="application/json")

    async def watch(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        pieces, self.pieces = self.pieces or [self.whole], []
        for each in pieces:
            await answer.write(each)
        return answer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def forger(resting: Place) -> AsyncIterator[tuple[Forger, str]]:
    place = resting
    run_id = place.names["bob"]
    session = place.daemon.session
    url = f"{place.daemon.url}/runs/{run_id}"
    async with session.get(f"{url}/events?follow=false", headers=BOB) as answer:
        whole = await answer.read()
    async with session.get(url, headers=BOB) as answer:
        forger = Forger(whole, await answer.read())
    application = web.Application()
    application.router.add_get("/runs/x", forger.find)
    application.router.add_get("/runs/x/events", forger.watch)
    async with TestServer(application) as server:
        yield forger, str(server.make_url("")).rstrip("/")


@pytest.mark.slow
@given(dice=st.randoms(use_true_random=False))
@settings(examples(160), suppress_health_check=[*HealthCheck])
async def test_a_client_of_ours_hears_each_event_once_or_says_what_is_wrong(
    forger: tuple[Forger, str], dice: random.Random
) -> None:
    """However the stream is cut, split, or garbled."""
    served, address = forger
    data = served.whole
    for _ in range(dice.randint(0, 3)):
        data = garble(dice, data)
    data = data[: dice.randint(0, len(data))] if dice.random() < 0.3 else data
    places = sorted(dice.randint(0, len(data)) for _ in range(dice.randint(0, 4)))
    cuts = [0, *places, len(data)]
    served.pieces = [data[a:b] for a, b in pairwise(cuts) if a < b]
    heard: list[LoggedEvent] = []
    is_refused = False
    async with asyncio.timeout(60), connect(address, clock=HurriedClock()) as runs:
        try:
            async for event in runs.watch("x", follow=False):
                if isinstance(event, LoggedEvent):
                    heard.append(event)
        except ConverseError:
            is_refused = True
    numbers = [each.sequence for each in heard]
    assert numbers == sorted({*numbers})
    if data == served.whole:
        assert not is_refused
