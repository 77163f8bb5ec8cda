"""Completions of prompts through the gateway: passed through, or answered by conversations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from support.gateways.accounts import Account
from support.gateways.gateway_files import RoutedGateway
from support.gateways.gateways import produce_application, serve_gateway, wait_until
from vibe_llms.daemons.records import CallRecord
from vibe_llms.testing.simulator import Say, Simulator, Think
from vibe_llms.testing.simulator.completions import compose_completion

LEGACY = "openai_conversations:gpt-3.5-turbo-instruct"
CLAUDE = "anthropic:claude-sonnet-5-5"
LLAMA = "ollama:llama3.2"
PROVIDERS = {
    "mistral": "/v1",
    "deepseek": "",
    "together": "/v1",
    "llamacpp": "/v1",
    "fireworks": "/v1",
    "cerebras": "/v1",
}


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Start the simulator behind the gateway."""
    async with Simulator() as running:
        yield running


@pytest.fixture
def records() -> list[CallRecord]:
    """Collect the records of requests."""
    return []


def produce(folder: Path, url: str) -> Any:
    """Create an application whose vendors are the simulator."""
    tables = {
        f"providers.{name}": f'base_url = "{url}{base}"\napi_key = "canary"'
        for name, base in PROVIDERS.items()
    }
    vllm = f'base_url = "{url}/v1"\napi_key = "canary"'
    mine = f'module = "vibe_llms.providers.openai_compatible"\n{vllm}'
    return produce_application(
        folder, url, **tables, **{"providers.mine": mine, "providers.vllm": vllm}
    )


@pytest.fixture
async def address(
    simulator: Simulator, tmp_path: Path, records: list[CallRecord]
) -> AsyncIterator[str]:
    """Serve a gateway before the simulator."""
    async with serve_gateway(produce(tmp_path, simulator.url), records) as running:
        yield running


@pytest.fixture
async def client(address: str) -> AsyncIterator[openai.AsyncOpenAI]:
    """Open the official client."""
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as opened:
        yield opened


async def collect(stream: Any) -> tuple[dict[int, str], dict[int, str], Any]:
    """Return the texts and finish reasons of a stream by choice, and its usage."""
    texts: dict[int, str] = {}
    reasons: dict[int, str] = {}
    usage = None
    async for chunk in stream:
        assert chunk.object == "text_completion"
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
            if choice.finish_reason:
                reasons[choice.index] = choice.finish_reason
    return texts, reasons, usage


# Passthrough


@pytest.mark.parametrize("stream", [False, True])
async def test_a_vendor_with_completions_gets_the_call_unchanged(
    stream: bool, client: openai.AsyncOpenAI, simulator: Simulator, records: list[CallRecord]
) -> None:
    prompts = ["Name a sea", "Name a lake"]
    fields: dict[str, Any] = {"n": 2, "echo": True, "suffix": "", "stop": ["."], "user": "me"}
    if stream:
        options: Any = {"include_usage": True}
        given = await client.completions.create(
            model=LEGACY, prompt=prompts, stream=True, stream_options=options, **fields
        )
        texts, reasons, usage = await collect(given)
    else:
        answer = await client.completions.create(
            model=LEGACY, prompt=prompts, logprobs=2, best_of=3, **fields
        )
        texts = {choice.index: choice.text for choice in answer.choices}
        reasons = {choice.index: choice.finish_reason for choice in answer.choices}
        usage = answer.usage
        logprobs = answer.choices[0].logprobs
        assert logprobs is not None
        assert logprobs.token_logprobs
    expected = [prompt + compose_completion(prompt) for prompt in prompts for _ in range(2)]
    assert list(texts.values()) == expected
    assert set(reasons.values()) == {"stop"}
    assert simulator.requests[0].body["user"] == "me"
    [record] = records
    assert (record.face, record.way, record.address) == ("completions", "passthrough", LEGACY)
    assert record.usage is not None
    assert record.usage.input_tokens == usage.prompt_tokens == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("openai_responses:davinci-002", "/v1/completions"),
        ("vllm:m", "/v1/completions"),
        ("mine:m", "/v1/completions"),
        ("deepseek:deepseek-chat", "/beta/completions"),
        ("together:m", "/v1/completions"),
        ("llamacpp:m", "/v1/completions"),
        ("fireworks:m", "/v1/completions"),
        ("cerebras:m", "/v1/completions"),
    ],
)
async def test_each_vendor_has_its_path(
    model: str, path: str, client: openai.AsyncOpenAI, simulator: Simulator
) -> None:
    answer = await client.completions.create(model=model, prompt="Name a sea")

    assert answer.choices[0].text == " sea sea"
    assert simulator.requests[0].path == path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("openai_conversations:gpt-5.5", {}),  # a newer model has no completions
        (LLAMA, {"n": 2}),
        (LLAMA, {"echo": True}),
        (LLAMA, {"prompt": ["Name a sea."]}),
        ("llamacpp:m", {"suffix": "."}),
        ("mistral:mistral-large-latest", {}),
    ],
)
async def test_a_call_that_a_vendor_would_misread_is_translated(
    model: str,
    fields: dict[str, Any],
    client: openai.AsyncOpenAI,
    simulator: Simulator,
    records: list[CallRecord],
) -> None:
    for _ in range(2):
        simulator.enqueue(Say("The North Sea."))
    answer = await client.completions.create(**{"model": model, "prompt": "Name a sea.", **fields})

    assert answer.choices[-1].text.endswith("The North Sea.")
    assert records[0].way == "translate"
    assert records[0].losses


@pytest.mark.parametrize("stream", [False, True])
async def test_a_suffix_is_sent_to_mistrals_call_for_it(
    stream: bool, client: openai.AsyncOpenAI, simulator: Simulator, records: list[CallRecord]
) -> None:
    answer = await client.completions.create(
        model="mistral:codestral-latest",
        prompt=["def add(a, b):", "def take(a, b):"],
        suffix="return a + b",
        echo=True,
        max_tokens=30,
        seed=3,
        stop="\n",
        stream=stream,
        extra_headers={"x-vibe-strict": "true"},
    )
    if stream:
        texts, _, _ = await collect(answer)
    else:
        texts = {choice.index: choice.text for choice in answer.choices}

    assert texts == {0: "def add(a, b): return return", 1: "def take(a, b): return return"}
    [record] = records
    assert (record.way, record.losses) == ("translate", ())
    assert record.usage is not None
    assert record.usage.total_output_tokens == 4
    assert [each.path for each in simulator.requests] == ["/v1/fim/completions"] * 2
    body = simulator.requests[0].body
    assert (body["random_seed"], body["suffix"]) == (3, "return a + b")
    assert "messages" not in body


@pytest.mark.slow
async def test_azures_client_completes(address: str, simulator: Simulator) -> None:
    async with openai.AsyncAzureOpenAI(
        azure_endpoint=address, api_key="x", api_version="2026-01-01", max_retries=0
    ) as client:
        answer = await client.completions.create(model=LEGACY, prompt="Name a sea")

    assert answer.choices[0].text == " sea sea"
    assert simulator.requests[0].body["model"] == "gpt-3.5-turbo-instruct"


# Translation


async def test_a_prompt_is_answered_by_a_conversation(
    client: openai.AsyncOpenAI, simulator: Simulator, records: list[CallRecord]
) -> None:
    simulator.enqueue(Say("The North Sea."))
    raw = await client.completions.with_raw_response.create(
        model=CLAUDE, prompt="Name a sea:", max_tokens=20, stop="\n"
    )
    answer = raw.parse()

    [choice] = answer.choices
    assert (choice.text, choice.index, choice.finish_reason) == ("The North Sea.", 0, "stop")
    assert choice.logprobs is None
    assert answer.object == "text_completion"
    assert answer.model == CLAUDE
    assert answer.id.startswith("cmpl-")
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    sent = simulator.requests[0].body
    assert [message["role"] for message in sent["messages"]] == ["user"]
    assert "Name a sea:" in str(sent["messages"])
    assert (sent["max_tokens"], sent["stop_sequences"]) == (20, ["\n"])
    assert "prompt" in json.loads(raw.headers["x-vibe-losses"])[0]
    [record] = records
    assert (record.way, record.status, record.address) == ("translate", 200, CLAUDE)
    assert record.usage is not None
    assert record.usage.total_output_tokens == answer.usage.completion_tokens


async def test_every_prompt_has_its_choices_in_order(
    client: openai.AsyncOpenAI, simulator: Simulator, records: list[CallRecord]
) -> None:
    for number in range(4):
        simulator.enqueue(Say(f"Answer {number}."))
    answer = await client.completions.create(
        model=CLAUDE,
        prompt=["Name a sea.", "Name a lake."],
        n=2,
        best_of=3,
        logprobs=1,
        echo=True,
        suffix="That is all.",
        max_tokens=20,
    )

    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    befores = [choice.text.partition("Answer")[0] for choice in answer.choices]
    assert befores == ["Name a sea."] * 2 + ["Name a lake."] * 2
    assert len({choice.text for choice in answer.choices}) == 4
    asked = [str(each.body["messages"]) for each in simulator.requests]
    assert [sum(prompt in each for each in asked) for prompt in ("sea.", "lake.")] == [2, 2]
    assert "That is all." in str(simulator.requests[0].body["system"])
    lost = {loss.path for loss in records[0].losses}
    assert {"prompt", "suffix", "best_of", "logprobs"} <= lost
    assert answer.usage is not None
    assert records[0].usage is not None
    assert records[0].usage.total_output_tokens == answer.usage.completion_tokens


@pytest.mark.parametrize("count", [1, 3])
async def test_a_stream_has_the_same_text_as_a_whole_answer(
    count: int, client: openai.AsyncOpenAI, simulator: Simulator, records: list[CallRecord]
) -> None:
    for _ in range(2 * count):
        simulator.enqueue(Say("The North Sea, or the Baltic Sea."))
    fields: dict[str, Any] = {"model": CLAUDE, "prompt": "A sea?", "n": count, "echo": True}
    whole = await client.completions.create(**fields, max_tokens=99)
    stream = await client.completions.create(
        **fields, max_tokens=99, stream=True, stream_options={"include_usage": True}
    )
    texts, reasons, usage = await collect(stream)

    assert texts == {choice.index: choice.text for choice in whole.choices}
    assert texts[0] == "A sea?The North Sea, or the Baltic Sea."
    assert reasons == {choice.index: choice.finish_reason for choice in whole.choices}
    assert whole.usage is not None
    assert usage.completion_tokens == whole.usage.completion_tokens
    used = [each.usage and each.usage.total_input_tokens for each in records]
    assert used[0] == used[1] == usage.prompt_tokens
    assert records[1].streamed
    assert not records[1].is_estimated


@pytest.mark.slow
@pytest.mark.parametrize("model", [CLAUDE, "google:gemini-3.8-flash", "openai_responses:gpt-5.5"])
async def test_texts_around_reasoning_are_separated_in_streams_and_whole_answers(
    model: str, client: openai.AsyncOpenAI, simulator: Simulator, records: list[CallRecord]
) -> None:
    for _ in range(2):
        simulator.enqueue(Think("A sea."), Say("The North Sea."), Think("Which?"), Say("Or not."))
    whole = await client.completions.create(model=model, prompt="A sea?", max_tokens=99)
    stream = await client.completions.create(
        model=model, prompt="A sea?", max_tokens=99, stream=True
    )
    texts, _, _ = await collect(stream)

    assert texts == {0: whole.choices[0].text}
    assert texts[0].startswith("The North Sea.")
    assert "choices[0].reasoning" in {loss.path for loss in records[0].losses}
    assert "choices[0].reasoning" in {loss.path for loss in records[1].losses}


async def test_a_stream_ends_with_its_losses_and_the_end_mark(
    address: str, simulator: Simulator
) -> None:
    simulator.enqueue(Think("A sea."), Say("The North Sea."))
    body = {"model": CLAUDE, "prompt": "A sea?", "stream": True, "max_tokens": 99}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{address}/v1/completions", json=body) as response,
    ):
        text = await response.text()

    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    assert "coerced prompt" in response.headers["x-vibe-losses"]


@pytest.mark.slow
async def test_an_answer_that_was_cut_off_says_so(
    client: openai.AsyncOpenAI, simulator: Simulator
) -> None:
    simulator.switch("silent_overflow")
    simulator.enqueue(Say("The North Sea, and many more words after it."))
    answer = await client.completions.create(model=CLAUDE, prompt="A sea?", max_tokens=99)

    assert answer.choices[0].finish_reason == "length"


async def test_the_first_error_ends_a_call(
    client: openai.AsyncOpenAI, simulator: Simulator, records: list[CallRecord]
) -> None:
    simulator.switch("server_error=9")
    for stream in (False, True):
        with pytest.raises(openai.InternalServerError):
            await client.completions.create(
                model=CLAUDE, prompt=["A sea?", "A lake?"], stream=stream, max_tokens=9
            )

    assert [record.status for record in records] == [500, 500]


async def test_an_error_in_the_middle_of_a_stream_is_told(
    client: openai.AsyncOpenAI, simulator: Simulator, records: list[CallRecord]
) -> None:
    simulator.switch("midstream_overloaded=4")
    simulator.enqueue(Say("The North Sea, and many more words after it."))
    stream = await client.completions.create(
        model=CLAUDE, prompt="A sea?", stream=True, max_tokens=99
    )
    with pytest.raises(openai.APIError):
        await collect(stream)

    await wait_until(lambda: records)
    assert records[0].error
    assert records[0].is_estimated


async def test_a_client_that_leaves_stops_all_streams(
    address: str, simulator: Simulator, records: list[CallRecord]
) -> None:
    simulator.switch("slow=50")
    for _ in range(3):
        simulator.enqueue(Say("The North Sea. " * 50))
    body = {"model": CLAUDE, "prompt": "A sea?", "n": 3, "stream": True, "max_tokens": 999}
    async with aiohttp.ClientSession() as session:
        response = await session.post(f"{address}/v1/completions", json=body)
        await response.content.readany()
        response.close()
    await wait_until(lambda: records)

    assert records[0].error == "client-gone"
    assert len([each for each in asyncio.all_tasks() if "_follow" in repr(each)]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"prompt": None}, 400, "prompt"),
        ({"prompt": ""}, 400, "blank"),
        ({"prompt": []}, 400, "prompt"),
        ({"prompt": [1, 2, 3]}, 400, "Tokens"),
        ({"prompt": ["a", 1]}, 400, "Tokens"),
        ({"prompt": "a", "n": 0}, 400, "n"),
        ({"prompt": "a", "n": "many"}, 400, "n"),
        ({"prompt": "a", "suffix": 3}, 400, "suffix"),
        ({"prompt": ["a"] * 100, "n": 2}, 400, "200 choices"),
        ({"prompt": "a", "n": 10**9}, 400, "choices"),
        ({"prompt": "a", "model": "nobody:m"}, 404, "nobody"),
    ],
)
async def test_an_invalid_call_is_refused(
    body: dict[str, Any], status: int, word: str, address: str, simulator: Simulator
) -> None:
    body = {"model": CLAUDE, **body}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{address}/v1/completions", json=body) as response,
    ):
        answer = await response.json()

    assert response.status == status, answer
    assert word in str(answer["error"])
    assert simulator.requests == []


@pytest.mark.slow
async def test_a_strict_client_is_refused_a_translation(address: str) -> None:
    body = {"model": CLAUDE, "prompt": "A sea?"}
    async with (
        aiohttp.ClientSession(headers={"x-vibe-strict": "true"}) as session,
        session.post(f"{address}/v1/completions", json=body) as response,
    ):
        answer = await response.json()

    assert response.status == 422
    assert "prompt" in answer["error"]["message"]


# Budgets, cache, routing


@pytest.mark.parametrize("model", [LEGACY, "openai_responses:davinci-002", CLAUDE])
@pytest.mark.parametrize("stream", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_a_budget_counts_every_choice(
    model: str, stream: bool, tmp_path: Path, simulator: Simulator, records: list[CallRecord]
) -> None:
    account = Account()
    for _ in range(4):
        simulator.enqueue(Say("The North Sea."))
    application = produce(tmp_path, simulator.url)
    async with (
        serve_gateway(application, records, authorizer=account) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client,
    ):
        answer = await client.completions.create(
            model=model, prompt=["A sea?", "A lake?"], n=2, max_tokens=30, stream=stream
        )
        if stream:
            _, _, usage = await collect(answer)
            assert usage is None  # the client did not ask for it

    [demand] = account.demands
    assert demand.output_tokens == 4 * 30
    assert account.calls == ["settled"]
    [(used, _)] = account.used
    assert used is not None
    assert used == records[0].usage
    assert used.total_output_tokens


@pytest.mark.slow
@pytest.mark.parametrize("model", ["first:gpt-3.5-turbo-instruct", "claude:claude-sonnet-5-5"])
async def test_an_equal_call_is_answered_from_the_cache(model: str, tmp_path: Path) -> None:
    table = f'[models.quick]\ntargets = ["{model}"]\ncache = {{ seconds = 600 }}\n'
    async with Simulator() as first, Simulator() as second:
        routed = RoutedGateway(tmp_path, first, second)
        for _ in range(4):
            second.enqueue(Say("The North Sea."))
        async with (
            routed.run(table),
            openai.AsyncOpenAI(
                base_url=f"{routed.address}/v1", api_key="k", max_retries=0
            ) as client,
        ):
            texts = []
            for stream in (False, False, True, True):
                answer = await client.completions.create(
                    model="quick", prompt="Name a sea", stream=stream, max_tokens=9
                )
                texts.append((await collect(answer))[0][0] if stream else answer.choices[0].text)
            await client.completions.create(model="quick", prompt="Name a lake", max_tokens=9)

        assert len({*texts}) == 1
        assert [each.cache for each in routed.records] == ["miss", "hit", "miss", "hit", "miss"]
        assert len(first.requests) + len(second.requests) == 3


async def test_a_failed_target_is_followed_by_another(tmp_path: Path) -> None:
    table = (
        '[models.quick]\ntargets = ["first:gpt-3.5-turbo-instruct"]\n'
        'fallback = ["claude:claude-sonnet-5-5"]\n'
    )
    async with Simulator() as first, Simulator() as second:
        routed = RoutedGateway(tmp_path, first, second)
        first.switch("server_error=9")
        second.enqueue(Say("The North Sea."))
        async with (
            routed.run(table),
            openai.AsyncOpenAI(
                base_url=f"{routed.address}/v1", api_key="k", max_retries=0
            ) as client,
        ):
            stream = await client.completions.create(
                model="quick", prompt="Name a sea", stream=True, max_tokens=9
            )
            texts, _, _ = await collect(stream)

    assert texts == {0: "The North Sea."}
    assert [each.error for each in routed.records[0].attempts] == ["provider", ""]
