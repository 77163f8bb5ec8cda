"""Responses that go on from others, before models that keep nothing; judged by OpenAI's library."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.daemons.gateway.responses import storage
from vibe_llms.daemons.gateway.responses.registry import ResponseDatabase
from vibe_llms.daemons.gateway.responses.storage import ResponseStorage, StorageLimits
from vibe_llms.foundation.limits import Limits
from vibe_llms.plugins.specification.daemons import Arrival, Demand
from vibe_llms.testing.simulator import Invoke, Say, Simulator, Think

TRANSLATED = "anthropic:claude-sonnet-5"
CARRIED = "openai_responses:gpt-5.5"
FILE = "gateway/responses.sqlite"
PIXEL = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TOOL: Any = {
    "type": "function",
    "name": "measure",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    "strict": False,
}


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """What stands behind the gateway."""
    async with Simulator() as running:
        yield running


@pytest.fixture
async def client(simulator: Simulator, tmp_path: Path) -> AsyncIterator[openai.AsyncOpenAI]:
    """OpenAI's library, before a gateway that keeps what its upstreams do not."""
    application = produce_application(tmp_path, simulator.url)
    async with serve_gateway(application) as address, produce_client(address) as made:
        yield made


def produce_client(address: str, key: str = "sk-client") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0)


def settle(response: Response) -> dict[str, Any]:
    """Returns a response without what may be left out as well."""
    told: dict[str, Any] = response.to_dict()
    for item in told["output"]:
        for part in item.get("content") or ():
            if part.get("logprobs") == []:
                del part["logprobs"]
    return told


def script(simulator: Simulator, *texts: str) -> None:
    for text in texts:
        simulator.enqueue(Say(text))


@pytest.mark.parametrize("model", [TRANSLATED, CARRIED])
async def test_a_chain_is_gone_on_from_and_forked(
    simulator: Simulator, client: openai.AsyncOpenAI, model: str
) -> None:
    script(simulator, "The North Sea.", "Deep.", "Cold.")
    first = await client.responses.create(model=model, input="Name a sea.")
    second = await client.responses.create(
        model=model, input="How deep?", previous_response_id=first.id
    )
    forked = await client.responses.create(
        model=model, input="How cold?", previous_response_id=first.id
    )
    assert len({first.id, second.id, forked.id}) == 3
    assert [first.output_text, second.output_text, forked.output_text] == [
        "The North Sea.",
        "Deep.",
        "Cold.",
    ]
    assert second.previous_response_id == first.id
    for number, question in ((1, "How deep?"), (2, "How cold?")):
        asked = str(simulator.requests[number].body)
        assert "Name a sea." in asked
        assert "The North Sea." in asked
        assert question in asked
    assert "How deep?" not in str(simulator.requests[2].body)
    for made in (first, second, forked):
        read = await client.responses.retrieve(made.id)
        assert read.output_text == made.output_text
        assert settle(read) == settle(made)


@pytest.mark.slow
@pytest.mark.parametrize("model", [TRANSLATED, CARRIED])
async def test_tools_images_and_reasoning_are_gone_on_from(
    simulator: Simulator, client: openai.AsyncOpenAI, model: str
) -> None:
    simulator.enqueue(Think("It needs a measure."), Invoke("measure", {"place": "here"}))
    script(simulator, "Three metres.")
    asked: Any = [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "How deep?"},
                {"type": "input_image", "image_url": PIXEL, "detail": "low"},
            ],
        }
    ]
    first = await client.responses.create(
        model=model, input=asked, tools=[TOOL], max_output_tokens=2_000
    )
    [call] = [item for item in first.output if item.type == "function_call"]
    second = await client.responses.create(
        model=model,
        previous_response_id=first.id,
        tools=[TOOL],
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "3"}],
    )
    assert second.output_text == "Three metres."
    again = str(simulator.requests[1].body)
    assert PIXEL.partition(",")[2] in again
    listed = await client.responses.input_items.list(second.id, order="asc")
    assert [item.type for item in listed.data][-1] == "function_call_output"
    assert settle(await client.responses.retrieve(first.id)) == settle(first)


async def test_what_was_asked_is_listed_in_pages(
    simulator: Simulator, client: openai.AsyncOpenAI
) -> None:
    script(simulator, "Yes.")
    asked: Any = [{"role": "user", "content": f"Line {number}."} for number in range(5)]
    made = await client.responses.create(model=TRANSLATED, input=asked)
    found = []
    async for item in client.responses.input_items.list(made.id, limit=2, order="asc"):
        found.append(item)
    assert [item.content[0].text for item in found] == [f"Line {n}." for n in range(5)]
    assert len({item.id for item in found}) == 5
    newest = await client.responses.input_items.list(made.id, limit=1)
    assert newest.data[0].id == found[-1].id
    with pytest.raises(openai.BadRequestError, match="limit"):
        await client.responses.input_items.list(made.id, limit=0)


async def test_a_response_that_is_deleted_is_gone(
    simulator: Simulator, client: openai.AsyncOpenAI, tmp_path: Path
) -> None:
    script(simulator, "One.", "Two.")
    first = await client.responses.create(model=TRANSLATED, input="Count.")
    second = await client.responses.create(
        model=TRANSLATED, input="On.", previous_response_id=first.id
    )
    await client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(first.id)
    assert (await client.responses.retrieve(second.id)).output_text == "Two."
    await client.responses.delete(second.id)
    assert not list(tmp_path.rglob("messages.jsonl"))


async def test_what_shall_not_be_kept_is_not(
    simulator: Simulator, client: openai.AsyncOpenAI, tmp_path: Path
) -> None:
    script(simulator, "One.")
    made = await client.responses.create(model=TRANSLATED, input="Count.", store=False)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(made.id)
    assert not list(tmp_path.rglob("messages.jsonl"))


@pytest.mark.slow
async def test_a_conversation_goes_on_with_any_model(
    simulator: Simulator, client: openai.AsyncOpenAI
) -> None:
    script(simulator, "The North Sea.", "Cold.")
    begun = await client.conversations.create(
        items=[{"type": "message", "role": "user", "content": "Be brief."}],
        metadata={"topic": "seas"},
    )
    for model, question in ((TRANSLATED, "Name a sea."), (CARRIED, "How cold?")):
        made = await client.responses.create(model=model, input=question, conversation=begun.id)
    assert made.output_text == "Cold."
    assert "The North Sea." in str(simulator.requests[1].body)
    listed = [item async for item in client.conversations.items.list(begun.id, order="asc")]
    texts = [item.content[0].text for item in listed]
    assert texts == ["Be brief.", "Name a sea.", "The North Sea.", "How cold?", "Cold."]
    [added] = (
        await client.conversations.items.create(
            begun.id, items=[{"type": "message", "role": "user", "content": "Thanks."}]
        )
    ).data
    read = await client.conversations.items.retrieve(added.id, conversation_id=begun.id)
    assert read.content[0].text == "Thanks."
    await client.conversations.items.delete(added.id, conversation_id=begun.id)
    with pytest.raises(openai.NotFoundError):
        await client.conversations.items.retrieve(added.id, conversation_id=begun.id)
    changed = await client.conversations.update(begun.id, metadata={"topic": "oceans"})
    assert changed.metadata == {"topic": "oceans"}
    assert (await client.conversations.retrieve(begun.id)).metadata == {"topic": "oceans"}
    assert (await client.conversations.delete(begun.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await client.conversations.retrieve(begun.id)


async def test_tokens_of_what_is_gone_on_from_count(
    simulator: Simulator, client: openai.AsyncOpenAI
) -> None:
    script(simulator, "A long answer, of several words.")
    made = await client.responses.create(model=TRANSLATED, input="Say something long.")
    alone = await client.responses.input_tokens.count(model=TRANSLATED, input="More.")
    whole = await client.responses.input_tokens.count(
        model=TRANSLATED, input="More.", previous_response_id=made.id
    )
    assert alone.object == "response.input_tokens"
    assert whole.input_tokens > alone.input_tokens > 0


@pytest.mark.slow
async def test_what_cannot_be_done_is_said(
    simulator: Simulator, client: openai.AsyncOpenAI
) -> None:
    with pytest.raises(openai.BadRequestError, match="resp_none"):
        await client.responses.create(
            model=TRANSLATED, input="On.", previous_response_id="resp_none"
        )
    with pytest.raises(openai.BadRequestError, match="another protocol"):
        await client.responses.compact(model=TRANSLATED, input="All.")
    script(simulator, "One.")
    made = await client.responses.create(model=TRANSLATED, input="Count.")
    with pytest.raises(openai.BadRequestError, match="background"):
        await client.responses.cancel(made.id)
    with pytest.raises(openai.BadRequestError, match="streamed"):
        await client.responses.retrieve(made.id, stream=True)


async def test_what_an_upstream_keeps_is_asked_of_it(simulator: Simulator, tmp_path: Path) -> None:
    produce_application(tmp_path, simulator.url)
    path = tmp_path / "vibe.toml"
    text = path.read_text(encoding="utf-8")
    place = "[providers.openai_responses]"
    path.write_text(text.replace(place, f"{place}\nkeeps_responses = true"), encoding="utf-8")
    application = Application(
        load_configuration(
            environment={"HOME": str(tmp_path), "VIBE_LLMS_CONFIG": str(path)},
            working_directory=tmp_path,
        )
    )
    script(simulator, "The North Sea.", "Deep.")
    async with serve_gateway(application) as address, produce_client(address) as client:
        first = await client.responses.create(model=CARRIED, input="Name a sea.")
        second = await client.responses.create(
            model=CARRIED, input="How deep?", previous_response_id=first.id
        )
        assert second.output_text == "Deep."
        asked = simulator.requests[1].body
        assert (asked["previous_response_id"], asked["input"]) == (first.id, "How deep?")
        assert (await client.responses.retrieve(first.id)).to_dict() == first.to_dict()
        with pytest.raises(openai.BadRequestError, match="another provider"):
            await client.responses.create(
                model=TRANSLATED, input="On.", previous_response_id=first.id
            )
        await client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(first.id)
    assert not list(tmp_path.rglob("messages.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
@pytest.mark.parametrize("keeps", [True, False])
async def test_what_the_gateway_has_not_made_is_carried_to_a_vendor_of_the_protocol(
    simulator: Simulator, tmp_path: Path, field: str, keeps: bool
) -> None:
    application = produce_application(tmp_path, simulator.url, keeps_responses=keeps)
    script(simulator, "The North Sea.", "Deep.", "Cold.")
    async with (
        produce_client(simulator.url) as elsewhere,
        serve_gateway(application) as address,
        produce_client(address) as client,
    ):
        begun = await elsewhere.responses.create(model="gpt-5.5", input="Name a sea.")
        identity = begun.id if field == "previous_response_id" else "conv_elsewhere"
        earlier: Any = {field: identity}
        made = await client.responses.create(model=CARRIED, input="How deep?", **earlier)
        again = await client.responses.create(
            model=CARRIED, input="How cold?", previous_response_id=made.id
        )
    assert (made.output_text, again.output_text) == ("Deep.", "Cold.")
    first, second = (request.body for request in simulator.requests[1:])
    assert (first[field], first["input"]) == (identity, "How deep?")
    # The vendor holds the beginning, so it has to hold what follows.
    assert (second["previous_response_id"], second["input"]) == (made.id, "How cold?")
    assert not list(tmp_path.rglob("messages.jsonl"))


@pytest.mark.parametrize(
    "earlier",
    [{"previous_response_id": "resp_elsewhere"}, {"conversation": "conv_elsewhere"}],
    ids=["response", "conversation"],
)
async def test_what_the_gateway_has_not_made_is_refused_where_clients_have_keys(
    simulator: Simulator, tmp_path: Path, earlier: dict[str, Any]
) -> None:
    application = produce_application(tmp_path, simulator.url)
    async with (
        serve_gateway(application, authorizer=_Everybody()) as address,
        produce_client(address) as client,
    ):
        with pytest.raises(openai.APIStatusError, match="elsewhere") as refused:
            await client.responses.create(model=CARRIED, input="On.", **earlier)
    assert refused.value.status_code in (400, 404)
    assert not simulator.requests


class _Everybody:
    """Lets everybody in, and calls them by their keys."""

    async def authorize(self, arrival: Arrival) -> _Named:
        return _Named(arrival.credential)

    async def close(self) -> None:
        """There is nothing to free."""


class _Named:
    def __init__(self, subject: str) -> None:
        self.subject = subject

    def admits(self, model: str) -> bool:
        return True

    async def reserve(self, demand: Demand) -> _Named:
        return self

    async def settle(self, usage: object, cents: object) -> None:
        """Nobody counts."""

    async def release(self) -> None:
        """Nobody counts."""


async def test_what_one_has_asked_another_does_not_find(
    simulator: Simulator, tmp_path: Path
) -> None:
    application = produce_application(tmp_path, simulator.url)
    script(simulator, "A secret.", "No more.")
    async with (
        serve_gateway(application, authorizer=_Everybody()) as address,
        produce_client(address, "sk-ada") as ada,
        produce_client(address, "sk-eve") as eve,
    ):
        made = await ada.responses.create(model=TRANSLATED, input="Tell me.")
        begun = await ada.conversations.create()
        for attempt in (
            eve.responses.retrieve(made.id),
            eve.responses.delete(made.id),
            eve.responses.input_items.list(made.id),
            eve.responses.create(model=TRANSLATED, input="On.", conversation=begun.id),
            eve.conversations.retrieve(begun.id),
        ):
            with pytest.raises(openai.NotFoundError):
                await attempt
        with pytest.raises(openai.BadRequestError, match="not found"):
            await eve.responses.create(model=TRANSLATED, input="On.", previous_response_id=made.id)
        assert (await ada.responses.retrieve(made.id)).output_text == "A secret."
    assert len(simulator.requests) == 1


@pytest.mark.slow
@pytest.mark.parametrize("model", [TRANSLATED, CARRIED])
async def test_a_full_disk_is_told_of_and_nothing_is_promised(
    simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """No id that nobody could go on from; with room again, all goes on."""
    pages = {"maximum": 1_000_000}
    opened = ResponseDatabase._open

    def open_small(registry: ResponseDatabase) -> sqlite3.Connection:
        connection = opened(registry)
        connection.execute(f"PRAGMA max_page_count = {pages['maximum']}")
        return connection

    monkeypatch.setattr(ResponseDatabase, "_open", open_small)
    application = produce_application(tmp_path, simulator.url)
    wide: Any = {"metadata": {f"n{number}": "x" * 500 for number in range(16)}}
    async with serve_gateway(application) as address, produce_client(address) as client:
        for _ in range(9):
            simulator.enqueue(Say("Yes."), simulate="slow=10")
        known = await client.responses.create(model=model, input="Well?")

        with sqlite3.connect(application.configuration.data_directory / FILE) as database:
            [pages["maximum"]] = database.execute("PRAGMA page_count").fetchone()
        ways: Any = ({}, {"stream": True}, {"background": True})
        for way in ways:
            with pytest.raises(openai.InternalServerError, match="disk of this server is full"):
                await client.responses.create(model=model, input="Well?", **wide, **way)
        assert len(simulator.requests) == 3  # in the background it was not even asked
        assert (await client.responses.retrieve(known.id)).output_text == "Yes."

        pages["maximum"] = 1_000_000
        again = await client.responses.create(
            model=model, input="Well?", previous_response_id=known.id, **wide
        )
        assert (await client.responses.retrieve(again.id)).output_text == "Yes."
    assert len(list(application.store.survey())) == 1


@pytest.mark.slow
@pytest.mark.parametrize("model", [TRANSLATED, CARRIED])
async def test_the_oldest_go_first_with_what_was_said(
    simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """Where too many are kept; what another goes on from stays."""
    monkeypatch.setattr(storage, "_SWEEP_INTERVAL", 2)
    application = produce_application(tmp_path, simulator.url)
    limits = StorageLimits(responses=2)
    async with (
        serve_gateway(application, storage_limits=limits) as address,
        produce_client(address) as client,
    ):
        script(simulator, *["Yes."] * 7)
        made = []
        for _ in range(3):
            made.append(await client.responses.create(model=model, input="Well?"))
        previous = made[-1].id
        for _ in range(2):
            response = await client.responses.create(
                model=model, input="And?", previous_response_id=previous
            )
            made.append(response)
            previous = response.id
        await client.responses.create(model=model, input="Well?", store=False)

        async def is_there(identity: str) -> bool:
            try:
                await client.responses.retrieve(identity)
            except openai.NotFoundError:
                return False
            return True

        assert [await is_there(each.id) for each in made] == [False, False, False, True, True]
        last = await client.responses.create(
            model=model, input="And?", previous_response_id=previous
        )
    assert last.output_text == "Yes."
    assert str(simulator.requests[-1].body).count("And?") == 3
    assert len(list(application.store.survey())) == 1


async def test_what_is_too_old_goes(simulator: Simulator, tmp_path: Path) -> None:
    application = produce_application(tmp_path, simulator.url)
    path = application.configuration.data_directory / FILE
    async with serve_gateway(application) as address, produce_client(address) as client:
        script(simulator, "Yes.", "Yes.")
        old = await client.responses.create(model=TRANSLATED, input="Well?")
        begun = await client.conversations.create()
        new = await client.responses.create(model=TRANSLATED, input="Well?")

        with sqlite3.connect(path) as database:
            for table, identity in (("responses", old.id), ("conversations", begun.id)):
                database.execute(
                    f"UPDATE {table} SET created = created - 31 * 86400 WHERE id = ?", (identity,)
                )
        keeper = ResponseStorage(lambda: application.store, path.parent, limits=Limits())
        await keeper.sweep()
        await keeper.close()

        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(old.id)
        with pytest.raises(openai.NotFoundError):
            await client.conversations.retrieve(begun.id)
        assert (await client.responses.retrieve(new.id)).output_text == "Yes."
    assert len(list(application.store.survey())) == 1


async def test_encrypted_reasoning_and_schemas_are_gone_on_from(
    simulator: Simulator, client: openai.AsyncOpenAI
) -> None:
    """A server of the protocol that keeps nothing gets back what it has wrapped, and the schema."""
    simulator.enqueue(Think("It needs a measure."), Say('{"metres": 3}'))
    script(simulator, '{"metres": 4}')
    schema: Any = {
        "format": {
            "type": "json_schema",
            "name": "depth",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"metres": {"type": "integer"}},
                "required": ["metres"],
                "additionalProperties": False,
            },
        }
    }
    first = await client.responses.create(
        model=CARRIED, input="How deep?", text=schema, include=["reasoning.encrypted_content"]
    )
    [wrapped] = [item for item in first.output if item.type == "reasoning"]
    assert wrapped.encrypted_content
    second = await client.responses.create(
        model=CARRIED, input="And there?", text=schema, previous_response_id=first.id
    )

    asked = simulator.requests[1].body
    assert [item.get("type", "message") for item in asked["input"]] == [
        "message",
        "reasoning",
        "message",
        "message",
    ]
    assert asked["input"][1]["encrypted_content"] == wrapped.encrypted_content
    assert asked["text"] == schema
    assert second.output_text == '{"metres": 4}'
    read = await client.responses.retrieve(first.id)
    assert settle(read) == settle(first)
