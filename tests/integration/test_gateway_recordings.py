"""What real clients asked and real vendors said, through the gateway."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import pytest

from support.gateways.gateways import produce_application, serve_gateway, wait_until
from support.network.wire_servers import Connection, serve
from support.quality.properties import STEP
from vibe_llms.daemons.records import CallRecord
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, Owner
from vibe_llms.messages.contents import FileContent, ImageContent, TextualContent
from vibe_llms.providers.assembly import Assembler
from vibe_llms.wire.ndjson import NdjsonFramer
from vibe_llms.wire.sse import SseFramer

RECORDINGS = os.environ.get("VIBE_LLMS_RECORDINGS", "")
FACES = {
    "anthropic_messages": ("anthropic", "/v1/messages"),
    "gemini": ("google", "/v1beta/models/{model}:{method}"),
    "ollama_chat": ("ollama", "/api/chat"),
    "openai_chat": ("openai_conversations", "/v1/chat/completions"),
    "openai_responses": ("openai_responses", "/v1/responses"),
}
"""From a file of recordings to the provider that speaks so, and the path of the face."""

PROTOCOLS = {
    "anthropic_messages": "messages",
    "gemini": "generate_content",
    "ollama_chat": "ollama_chat",
    "openai_chat": "chat_completions",
    "openai_responses": "responses",
}
"""From a file of recordings to the protocol in it."""

SAMPLED = 1 if STEP == 1 else 12
"""Of what takes long each twelfth, unless all is asked for."""

pytestmark = [
    pytest.mark.samples,
    pytest.mark.skipif(not RECORDINGS, reason="VIBE_LLMS_RECORDINGS names no folder of recordings"),
]


def survey(name: str) -> Iterator[dict[str, Any]]:
    """Yields the exchanges of a file that went to the path at which a model answers."""
    for line in Path(RECORDINGS, f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


@attrs.define
class Upstream:
    """Says what was recorded, in pieces of some size."""

    exchange: dict[str, Any] = attrs.field(factory=dict)
    size: int = 1_000_000
    asked: list[bytes] = attrs.field(factory=list)
    headers: list[dict[str, str]] = attrs.field(factory=list)

    @property
    def body(self) -> bytes:
        """The recorded answer."""
        return str(self.exchange["body"]).encode()

    async def __call__(self, connection: Connection) -> None:
        while True:
            _, headers, body = await connection.read_request()
            self.asked.append(body)
            self.headers.append(headers)
            status, kind = self.exchange["status"], self.exchange["content_type"]
            head = f"HTTP/1.1 {status} Said\r\nTransfer-Encoding: chunked\r\n"
            await connection.write(f"{head}Content-Type: {kind}\r\nX-Said: yes\r\n\r\n".encode())
            for start in range(0, len(self.body), self.size):
                await connection.send_chunk(self.body[start : start + self.size])
                await asyncio.sleep(0)
            await connection.send_chunk(b"")


@asynccontextmanager
async def replaying(
    folder: Path,
) -> AsyncIterator[tuple[Upstream, str, aiohttp.ClientSession, list[CallRecord]]]:
    """A gateway before what was recorded, and a client of it."""
    upstream = Upstream()
    records: list[CallRecord] = []
    async with serve(upstream) as server, aiohttp.ClientSession() as session:
        application = produce_application(folder, server.url, keeps_responses=True)
        async with serve_gateway(application, records) as address:
            yield upstream, address, session, records


def compose_path(name: str, model: str, exchange: dict[str, Any]) -> str:
    """Returns the path at the gateway to which a recorded request goes."""
    _, path = FACES[name]
    if name != "gemini":
        return path
    method = "streamGenerateContent" if exchange["stream"] else "generateContent"
    query = "?alt=sse" if "alt=sse" in (exchange.get("query") or "") else ""
    return path.format(model=model, method=method) + query


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 1_000_000])
@pytest.mark.parametrize("name", FACES)
async def test_what_is_carried_arrives_as_it_was(tmp_path: Path, name: str, size: int) -> None:
    provider, _ = FACES[name]
    count = 0
    async with replaying(tmp_path) as (upstream, address, session, records):
        for exchange in list(survey(name))[:: 1 if size > 7 else SAMPLED]:
            if size == 1 and len(exchange["body"]) > 1_200:  # it takes long
                continue
            upstream.exchange, upstream.size = exchange, size
            asked = exchange["request"]
            named = str(exchange["model"] or "m")
            model = f"{provider}:{named}"
            body = asked if name == "gemini" else {**asked, "model": model}
            path = compose_path(name, model, exchange)
            headers = {"authorization": "Bearer sk-client"}
            async with session.post(f"{address}{path}", json=body, headers=headers) as told:
                said = await told.read()
            assert said == upstream.body, exchange["id"]
            await wait_until(lambda: len(records) == count + 1)  # it is told of when all is done  # noqa: B023
            assert told.status == exchange["status"]
            assert told.headers["content-type"] == exchange["content_type"]
            assert told.headers["x-said"] == "yes"
            received = json.loads(upstream.asked[-1])
            assert received == (asked if name == "gemini" else {**asked, "model": named})
            assert "sk-client" not in json.dumps(upstream.headers[-1])
            assert records[-1].way == "passthrough"
            assert not records[-1].error, exchange["id"]
            if exchange["status"] == 200 and b'"usage' in said.lower():
                assert records[-1].usage is not None, exchange["id"]
            count += 1
    assert count or size == 1


@pytest.mark.slow
@pytest.mark.parametrize("other", FACES)
@pytest.mark.parametrize("name", FACES)
async def test_what_is_translated_says_the_same(tmp_path: Path, name: str, other: str) -> None:
    """Each request of one protocol, answered by what vendors of another said."""
    if name == other:
        return
    said = [each for each in survey(other) if each["status"] == 200]
    async with replaying(tmp_path) as (upstream, address, session, records):
        for index, exchange in enumerate(list(survey(name))[::SAMPLED]):
            answers = [each for each in said if each["stream"] == exchange["stream"]]
            upstream.exchange = answers[index % len(answers)]
            model = f"{FACES[other][0]}:{upstream.exchange['model'] or 'm'}"
            asked = exchange["request"]
            body = asked if name == "gemini" else {**asked, "model": model}
            path = compose_path(name, model, exchange)
            async with session.post(f"{address}{path}", json=body) as told:
                heard = await told.read()
            await wait_until(lambda: len(records) == index + 1)  # noqa: B023
            record = records[-1]
            if told.status == 400:  # the model takes no such content, and that is said
                assert record.error == "capability", (exchange["id"], heard)
                continue
            assert (told.status, record.error) == (200, ""), (exchange["id"], heard)
            assert record.way == "translate"
            mine = read_answer(name, heard, told.headers["content-type"])
            theirs = read_answer(other, upstream.body, upstream.exchange["content_type"])
            if "canisters" not in " ".join(loss.path for loss in record.losses):
                assert tell(mine) == tell(theirs), exchange["id"]
                assert tell_asked(name, asked) == tell_asked(other, json.loads(upstream.asked[-1]))


def read_answer(name: str, body: bytes, kind: str) -> tuple[AnyCanister, ...]:
    """Returns what an answer says, by the decoder of its protocol."""
    protocol = PROTOCOLS[name]
    dialect = importlib.import_module(f"vibe_llms.dialects.{protocol}")
    decoder = dialect.Decoder(provider="p", model="m")
    assembler = Assembler(provider="p", model="m", protocol=protocol)
    framer = {"text/event-stream": SseFramer, "application/x-ndjson": NdjsonFramer}.get(
        kind.partition(";")[0]
    )
    if framer is None:
        events = decoder.decode_response(body)
    else:
        cut = framer(Limits())
        frames = [*cut.feed(body), *cut.finish()]
        events = [event for frame in frames for event in decoder.decode(frame.data, frame.event)]
        events += decoder.finish()
    for event in events:
        assembler.feed(event)
    return assembler.produce_canisters()


def tell_asked(name: str, native: dict[str, Any]) -> list[tuple[str, object]]:
    """Returns what a client said in a request, in its order: whose, and what."""
    dialect = importlib.import_module(f"vibe_llms.dialects.{PROTOCOLS[name]}")
    said: list[tuple[str, object]] = []
    for canister in dialect.normalize_request({"model": "m", **native}).value.canisters:
        if isinstance(canister, InvocationCanister):
            said.append(("invocation", (canister.name, json.loads(canister.arguments or "{}"))))
        for content in canister.content:
            match content:
                case TextualContent() if said and said[-1][0] == f"{canister.role}:text":
                    said[-1] = (said[-1][0], f"{said[-1][1]}{content.text}")
                case TextualContent() if content.text:
                    said.append((f"{canister.role}:text", content.text))
                case ImageContent() | FileContent():
                    where = content.data or content.url or content.file_id
                    said.append((f"{canister.role}:{content.type}", where))
    return said


def tell(canisters: tuple[AnyCanister, ...]) -> tuple[str, list[tuple[str, Any]]]:
    """Returns what everybody can say: the text, and the calls that are for the client."""
    texts = [
        content.text
        for canister in canisters
        for content in canister.content
        if isinstance(content, TextualContent)
    ]
    calls = [
        (canister.name, json.loads(canister.arguments or "{}"))
        for canister in canisters
        if isinstance(canister, InvocationCanister) and canister.owner is Owner.OURS
    ]
    return "".join(texts), calls
