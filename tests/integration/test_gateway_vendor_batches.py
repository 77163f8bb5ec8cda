"""Batches of the gateway's clients over the batch APIs of vendors, by the official libraries."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from support.batches.vendor_batching import is_submission
from support.gateways.gateway_files import RoutedGateway
from support.gateways.key_holders import create_key, sum_spending
from support.gateways.libraries import reach_anthropic, reach_openai
from vibe_llms.daemons.gateway.client_requests import read_client_request
from vibe_llms.daemons.gateway.estimating import estimate
from vibe_llms.daemons.gateway.faces.chat_completions import FACE
from vibe_llms.daemons.gateway.upstreams import Upstream
from vibe_llms.daemons.keys.authorizer import KeyAuthorizer
from vibe_llms.daemons.keys.ledger import KeyAccount
from vibe_llms.exceptions import ProviderError, ProviderFault
from vibe_llms.providers.batches import BatchState
from vibe_llms.providers.batching import AnyBatches, ModelBatches
from vibe_llms.telemetry.prices import Price, price_usage
from vibe_llms.testing.simulator import Simulator, openai_batches
from vibe_llms.testing.simulator.batches import Batch
from vibe_llms.testing.simulator.refusals import SimulatedRefusal

CHAT, RESPONSES, EMBEDDINGS = "/v1/chat/completions", "/v1/responses", "/v1/embeddings"
TABLES = """
[models.gpt]
targets = ["first:gpt-5.5"]
[models.claude]
targets = ["claude:claude-sonnet-4-5"]
[models.gemini]
targets = ["gemini:gemini-3.8-flash"]
[models.vectors]
targets = ["first:text-embedding-3-small"]
[models.llama]
targets = ["ollama:llama4"]
"""


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the gateway ask its vendors without long pauses."""
    following = "vibe_llms.daemons.gateway.batches.vendor_following"
    monkeypatch.setattr(f"{following}.WATCH_SECONDS", 0.02)
    monkeypatch.setattr("vibe_llms.batches.collecting.FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr("vibe_llms.batches.submitting.PAUSE_GROWTH", 1.0)


@pytest.fixture
async def routed(tmp_path: Path) -> AsyncIterator[RoutedGateway]:
    """A gateway that does not run yet."""
    async with Simulator() as first, Simulator() as second:
        yield RoutedGateway(tmp_path, first, second)


def compose_line(number: int, model: str, path: str = CHAT, **fields: Any) -> dict[str, Any]:
    """Composes a request of OpenAI's clients."""
    text = f"Sea {number}?"
    body = {
        CHAT: {"messages": [{"role": "user", "content": text}]},
        RESPONSES: {"input": text},
        EMBEDDINGS: {"input": text},
    }[path]
    body = {"model": model, **body, **fields}
    return {"custom_id": f"{model}-{number}", "method": "POST", "url": path, "body": body}


def compose_message(number: int, model: str, **fields: Any) -> Any:
    """Composes a request of Anthropic's clients."""
    content = [{"role": "user", "content": f"Sea {number}?"}]
    params = {"model": model, "max_tokens": 64, "messages": content, **fields}
    return {"custom_id": f"{model} {number}", "params": params}


async def wait_for(read: Callable[[], Any], is_over: Callable[[Any], bool]) -> Any:
    """Reads the state of a batch until it is over."""
    async with asyncio.timeout(60):
        while not is_over(state := await read()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # as clients do
    return state


async def create(client: openai.AsyncOpenAI, lines: list[Any], path: str = CHAT) -> Any:
    """Uploads a file and starts a batch of it."""
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    file = await client.files.create(file=("in.jsonl", data), purpose="batch")
    return await client.batches.create(
        input_file_id=file.id,
        endpoint=path,  # type: ignore[arg-type]
        completion_window="24h",
    )


async def finish(client: openai.AsyncOpenAI, identity: str) -> Any:
    """Waits for the end of a batch."""
    return await wait_for(
        lambda: client.batches.retrieve(identity),
        lambda each: each.status in ("completed", "cancelled", "expired"),
    )


async def read_lines(client: openai.AsyncOpenAI, identity: str | None) -> dict[str, Any]:
    """Reads a file of results, by custom ids."""
    if identity is None:
        return {}
    content = await client.files.content(identity)
    lines = [json.loads(line) for line in content.text.splitlines()]
    return {line["custom_id"]: line for line in lines}


def survey(simulator: Simulator) -> list[tuple[str, str]]:
    """Returns what a vendor was asked for."""
    return [(each.method, each.path) for each in simulator.requests]


def count_made(simulator: Simulator) -> int:
    """Returns how many batches a vendor has made."""
    return sum(method == "POST" and path.endswith("/batches") for method, path in survey(simulator))


def end_batches(simulator: Simulator) -> None:
    """Lets the batches of a vendor end at their next poll."""
    for stored in simulator._state.stored.values():
        if isinstance(stored, Batch):
            stored.polls = 0


async def test_openai_clients_at_openai(routed: RoutedGateway) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await create(client, [compose_line(number, "gpt") for number in range(5)])
        batch = await finish(client, batch.id)
        lines = await read_lines(client, batch.output_file_id)

    assert (batch.status, batch.request_counts.completed) == ("completed", 5)
    assert {name: line["response"]["status_code"] for name, line in lines.items()} == {
        f"gpt-{number}": 200 for number in range(5)
    }
    for name, line in lines.items():
        body = line["response"]["body"]
        assert body["choices"][0]["message"]["content"] == f"Sea {name[4:]}?"
    assert count_made(routed.first) == 1
    assert ("POST", CHAT) not in survey(routed.first), "no request is sent alone"
    ways = [(each.way, each.model, each.usage is None) for each in routed.records if each.way]
    assert ways == [("batch", "gpt", False)] * 5


async def test_anthropic_clients_at_openai(routed: RoutedGateway) -> None:
    requests = [compose_message(number, "gpt", top_k=3) for number in range(3)]
    async with routed.run(TABLES), reach_anthropic(routed) as client:
        made = await client.messages.batches.create(requests=requests)
        state = await wait_for(
            lambda: client.messages.batches.retrieve(made.id),
            lambda each: each.processing_status == "ended",
        )
        results = [each async for each in await client.messages.batches.results(made.id)]

    assert (made.id[:9], state.request_counts.succeeded) == ("msgbatch_", 3)
    assert count_made(routed.first) == 1
    assert ("POST", CHAT) not in survey(routed.first)
    texts = {each.custom_id: each.result.message.content[0].text for each in results}  # type: ignore[union-attr]
    assert texts == {f"gpt {number}": f"Sea {number}?" for number in range(3)}
    for each in results:
        assert each.result.message.model == "gpt"  # type: ignore[union-attr]
        assert "top_k" in str(each.model_extra["vibe_losses"])  # type: ignore[index]


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_openai_clients_at_google(routed: RoutedGateway, path: str) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        lines = [compose_line(number, "gemini", path) for number in range(3)]
        batch = await finish(client, (await create(client, lines, path)).id)
        results = await read_lines(client, batch.output_file_id)

    assert batch.request_counts.completed == 3
    assert sum(map(is_submission, routed.second.requests)) == 1
    assert not any(path.endswith(":generateContent") for _, path in survey(routed.second))
    for name, line in results.items():
        assert f"Sea {name[7:]}?" in json.dumps(line["response"]["body"])


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_openai_clients_at_anthropic(routed: RoutedGateway, path: str) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        lines = [compose_line(number, "claude", path) for number in range(3)]
        batch = await finish(client, (await create(client, lines, path)).id)
        results = await read_lines(client, batch.output_file_id)

    assert batch.request_counts.completed == 3
    assert survey(routed.second).count(("POST", "/v1/messages/batches")) == 1
    assert ("POST", "/v1/messages") not in survey(routed.second)
    for name, line in results.items():
        assert f"Sea {name[7:]}?" in json.dumps(line["response"]["body"])
        assert line["response"]["body"]["model"] == "claude"
        assert "max_tokens" in str(line["vibe_losses"]), "the limit is the gateway's"


async def test_anthropic_clients_at_anthropic(routed: RoutedGateway) -> None:
    requests = [compose_message(number, "claude") for number in range(3)]
    async with routed.run(TABLES), reach_anthropic(routed) as client:
        made = await client.beta.messages.batches.create(
            requests=requests, betas=["files-api-2025-04-14"]
        )
        await wait_for(
            lambda: client.messages.batches.retrieve(made.id),
            lambda each: each.processing_status == "ended",
        )
        results = [each async for each in await client.messages.batches.results(made.id)]

    (submission,) = filter(is_submission, routed.second.requests)
    assert submission.headers["anthropic-beta"] == "files-api-2025-04-14"
    assert [each["params"]["model"] for each in submission.body["requests"]] == [
        "claude-sonnet-4-5"
    ] * 3
    texts = {each.custom_id: each.result.message.content[0].text for each in results}  # type: ignore[union-attr]
    assert texts == {f"claude {number}": f"Sea {number}?" for number in range(3)}


async def test_vectors(routed: RoutedGateway) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        lines = [compose_line(number, "vectors", EMBEDDINGS) for number in range(3)]
        batch = await finish(client, (await create(client, lines, EMBEDDINGS)).id)
        results = await read_lines(client, batch.output_file_id)
        alone = await client.embeddings.create(model="vectors", input="Sea 1?")

    assert count_made(routed.first) == 1
    vector = results["vectors-1"]["response"]["body"]["data"][0]["embedding"]
    assert vector == pytest.approx(alone.data[0].embedding)


async def test_a_mixed_batch_is_split_by_target(routed: RoutedGateway) -> None:
    models = ("gpt", "claude", "llama", "unknown")
    lines = [compose_line(number, model) for number in range(2) for model in models]
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await finish(client, (await create(client, lines)).id)
        results = await read_lines(client, batch.output_file_id)
        failures = await read_lines(client, batch.error_file_id)

    assert (batch.request_counts.completed, batch.request_counts.failed) == (6, 2)
    assert results.keys() == {f"{model}-{n}" for model in models[:3] for n in range(2)}
    assert failures.keys() == {"unknown-0", "unknown-1"}
    assert (count_made(routed.first), count_made(routed.second)) == (1, 1)
    assert survey(routed.first).count(("POST", "/api/chat")) == 2, "Ollama has no batches"


async def test_a_table_may_choose_single_requests(routed: RoutedGateway) -> None:
    tables = TABLES.replace('["first:gpt-5.5"]', '["first:gpt-5.5"]\nbatches = "requests"')
    async with routed.run(tables), reach_openai(routed) as client:
        batch = await finish(client, (await create(client, [compose_line(0, "gpt")])).id)
    assert batch.request_counts.completed == 1
    assert survey(routed.first) == [("POST", CHAT)]


async def test_without_tables_the_address_is_the_model(routed: RoutedGateway) -> None:
    model = "claude:claude-sonnet-4-5"
    async with routed.run(""), reach_openai(routed) as client:
        batch = await finish(client, (await create(client, [compose_line(0, model)])).id)
    assert batch.request_counts.completed == 1
    assert ("POST", "/v1/messages/batches") in survey(routed.second)


async def test_requests_that_refer_to_the_gateway_go_alone(routed: RoutedGateway) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        first = await client.responses.create(model="gpt", input="Remember the Tethys.")
        line = compose_line(0, "gpt", RESPONSES, previous_response_id=first.id)
        batch = await finish(client, (await create(client, [line], RESPONSES)).id)
    assert batch.request_counts.completed == 1
    assert count_made(routed.first) == 0


async def test_errors_of_the_vendor_are_in_the_file_of_errors(routed: RoutedGateway) -> None:
    routed.first.switch("batch_errors=1")
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await create(client, [compose_line(number, "gpt") for number in range(2)])
        batch = await finish(client, batch.id)
        (line,) = (await read_lines(client, batch.error_file_id)).values()

    assert (batch.status, batch.request_counts.failed) == ("completed", 1)
    assert line["response"]["status_code"] == 500
    assert line["response"]["body"]["error"]["message"] == "Internal server error"


async def test_errors_are_translated(routed: RoutedGateway) -> None:
    routed.first.switch("batch_errors=1")
    async with routed.run(TABLES), reach_anthropic(routed) as client:
        requests = [compose_message(number, "gpt") for number in range(2)]
        made = await client.messages.batches.create(requests=requests)
        state: Any = await wait_for(
            lambda: client.messages.batches.retrieve(made.id),
            lambda each: each.processing_status == "ended",
        )
        results = [each async for each in await client.messages.batches.results(made.id)]
    assert state.request_counts.errored == 1
    (failed,) = [each.result for each in results if each.result.type == "errored"]
    assert "Internal server error" in failed.error.error.message


async def test_an_expired_batch(routed: RoutedGateway) -> None:
    routed.first.switch("batch_expires=1")
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await create(client, [compose_line(number, "gpt") for number in range(3)])
        batch = await finish(client, batch.id)
    assert (batch.status, batch.request_counts.completed) == ("expired", 2)


async def test_a_cancelled_batch_is_cancelled_at_the_vendor(routed: RoutedGateway) -> None:
    routed.first.switch("batch_polls=1000")
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await create(client, [compose_line(number, "gpt") for number in range(3)])
        await wait_for(
            lambda: client.batches.retrieve(batch.id), lambda _: count_made(routed.first)
        )
        assert (await client.batches.cancel(batch.id)).status == "cancelling"
        batch = await finish(client, batch.id)
    assert (batch.status, batch.request_counts.completed) == ("cancelled", 0)
    assert [path[-7:] for _, path in survey(routed.first)].count("/cancel") == 1


async def test_a_vendor_without_batches_is_asked_request_by_request(routed: RoutedGateway) -> None:
    """Such as a server with OpenAI's protocol, but without its batches."""
    routed.first.switch("no_batches")
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await create(client, [compose_line(number, "gpt") for number in range(3)])
        batch = await finish(client, batch.id)
    assert (batch.status, batch.request_counts.completed) == ("completed", 3)
    assert survey(routed.first).count(("POST", CHAT)) == 3
    assert ("POST", "/v1/files") not in survey(routed.first), "nothing to look for after a crash"


async def test_a_model_without_batches_is_asked_request_by_request(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vendor has batches, but refuses this one."""

    def refuse(request: Any) -> None:
        raise SimulatedRefusal(403, "permission", "This model has no batches.")

    monkeypatch.setattr(openai_batches, "_create", refuse)
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await create(client, [compose_line(number, "gpt") for number in range(3)])
        batch = await finish(client, batch.id)
    assert (batch.status, batch.request_counts.completed) == ("completed", 3)
    assert survey(routed.first).count(("POST", CHAT)) == 3
    assert count_made(routed.first) == 1


async def test_a_batch_continues_after_a_restart(routed: RoutedGateway) -> None:
    routed.first.switch("batch_polls=1000")
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await create(client, [compose_line(number, "gpt") for number in range(3)])
        await wait_for(
            lambda: client.batches.retrieve(batch.id), lambda _: count_made(routed.first)
        )
    routed.first.switch("")
    moved = TABLES.replace("first:gpt-5.5", "second:gpt-5.5")  # only for new batches
    async with routed.run(moved), reach_openai(routed) as client:
        assert [each.id async for each in client.batches.list()] == [batch.id]
        paths = [each for each in routed.file.parent.rglob("batch_*/*") if each.name != "lock"]
        modes = {stat.S_IMODE(path.stat().st_mode) for path in paths}
        end_batches(routed.first)
        batch = await finish(client, batch.id)

        async def list_files() -> set[str]:
            return {each.name for each in routed.file.parent.rglob("batch_*/*")}

        # The vendor's files go a moment after the end.
        left = await wait_for(list_files, lambda names: not any("vendor" in name for name in names))
    assert batch.request_counts.completed == 3
    assert (count_made(routed.first), count_made(routed.second)) == (1, 0)
    assert modes == {0o600}
    assert {"vendor-0.jsonl", "vendor-0.jsonl.chunks", "roads.json"} < {path.name for path in paths}
    assert left == {"batch.json", "lock", "requests.jsonl", "results.jsonl", "roads.json"}


async def test_the_vendors_counts_are_shown(routed: RoutedGateway) -> None:
    """Also while the batch is in progress."""
    seen = set()
    routed.first.switch("batch_polls=10")
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await create(client, [compose_line(number, "gpt") for number in range(3)])

        async def read() -> Any:
            state = await client.batches.retrieve(batch.id)
            assert state.request_counts is not None
            seen.add((state.status, state.request_counts.completed))
            return state

        await wait_for(read, lambda each: each.status == "completed")
    assert ("in_progress", 0) in seen
    assert ("completed", 3) in seen
    assert {count for _, count in seen} <= {0, 3}


async def test_a_submission_in_doubt_is_not_repeated(routed: RoutedGateway) -> None:
    routed.first.switch("batch_unanswered")  # the vendor has it, but nobody hears of it
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await create(client, [compose_line(number, "gpt") for number in range(3)])
        await wait_for(
            lambda: client.batches.retrieve(batch.id), lambda _: count_made(routed.first)
        )
        routed.first.switch("")
        batch = await finish(client, batch.id)
    assert (batch.status, batch.request_counts.completed) == ("completed", 3)
    assert count_made(routed.first) == 1
    assert ("POST", CHAT) not in survey(routed.first)


PRICED = """
[models.gpt]
targets = ["openai_conversations:gpt-5.5"]
"""
PROVIDER = '[providers.openai_conversations]\nbase_url = "{}/v1"\napi_key = "sk-fifth"\n'


async def test_budgets_have_the_price_of_batches(tmp_path: Path) -> None:
    async with Simulator() as vendor:
        providers = PROVIDER.format(vendor.url)
        routed = RoutedGateway(tmp_path, vendor, vendor, providers=providers)
        key = create_key(tmp_path / "keys", cents_per_day=1000, tokens_per_minute=10)
        lines = [compose_line(number, "gpt", max_tokens=500) for number in range(3)]
        keys = KeyAuthorizer(tmp_path / "keys")
        async with routed.run(PRICED, authorizer=keys), reach_openai(routed, key) as client:
            vendor.switch("batch_polls=1000")
            batch = await create(client, lines)
            await wait_for(lambda: client.batches.retrieve(batch.id), lambda _: count_made(vendor))
            reserved = sum_spending(KeyAccount(keys._ledger.survey().under_way, {}))
            end_batches(vendor)
            batch = await finish(client, batch.id)
            account = keys._ledger.survey()
    assert batch.request_counts.completed == 3
    assert reserved.perhaps_requests == 1, "one reservation for all"
    assert 0 < reserved.perhaps_cents < 1000
    spent = sum_spending(account)
    assert not account.under_way
    records = [each for each in routed.records if each.way == "batch"]
    assert spent.cents == sum(each.cents or 0 for each in records) > 0
    for each in records:
        price = price_usage(each.usage, provider="openai_conversations", model="gpt-5.5")
        assert isinstance(price, Price)
        assert each.cents == price.amount * 100 / 2


async def test_half_the_price_fits_into_a_budget(tmp_path: Path) -> None:
    """One that would be too small for the same requests at the usual price."""
    lines = [compose_line(number, "gpt", max_tokens=500) for number in range(20)]
    body = json.dumps(lines[0]["body"]).encode()
    async with Simulator() as vendor:
        providers = PROVIDER.format(vendor.url)
        routed = RoutedGateway(tmp_path, vendor, vendor, providers=providers)
        model = await routed.application.access_model("openai_conversations:gpt-5.5")
        demand = estimate(read_client_request(FACE, body), Upstream(model))
        assert demand.cents is not None
        whole = int(20 * demand.cents)
        key = create_key(tmp_path / "keys", cents_per_day=whole * 3 // 4)
        keys = KeyAuthorizer(tmp_path / "keys")
        async with routed.run(PRICED, authorizer=keys), reach_openai(routed, key) as client:
            batch = await finish(client, (await create(client, lines)).id)
    assert batch.request_counts.completed == 20
    assert count_made(vendor) == 1
    assert ("POST", CHAT) not in survey(vendor)


@pytest.mark.parametrize("is_strict", [True, False])
async def test_strict_batches_refuse_losses(routed: RoutedGateway, is_strict: bool) -> None:
    requests = [compose_message(0, "gpt", top_k=3), compose_message(1, "gpt")]
    headers = {"x-vibe-strict": "true"} if is_strict else {}
    async with routed.run(TABLES), reach_anthropic(routed) as client:
        made = await client.messages.batches.create(requests=requests, extra_headers=headers)
        await wait_for(
            lambda: client.messages.batches.retrieve(made.id),
            lambda each: each.processing_status == "ended",
        )
        results = [each async for each in await client.messages.batches.results(made.id)]
    kinds = {each.custom_id: each.result.type for each in results}
    assert kinds == {"gpt 0": "errored" if is_strict else "succeeded", "gpt 1": "succeeded"}


async def test_a_batch_whose_vendor_cannot_be_asked_is_continued_later(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its requests are at the vendor, so they are not sent again."""
    monkeypatch.setattr("vibe_llms.daemons.gateway.batches.running.PAUSE_SECONDS", 0.05)
    poll, failures = ModelBatches.poll, 0

    async def fail(self: AnyBatches, identity: str) -> BatchState:
        nonlocal failures
        failures += 1
        if failures <= 3:
            raise ProviderError(
                provider="first",
                fault=ProviderFault.AUTHENTICATION,
                status=401,
                detail="Wrong key.",
            )
        return await poll(self, identity)

    monkeypatch.setattr(ModelBatches, "poll", fail)
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await create(client, [compose_line(number, "gpt") for number in range(3)])
        await wait_for(lambda: client.batches.retrieve(batch.id), lambda _: failures > 1)
        assert (await client.batches.retrieve(batch.id)).status == "in_progress"
        batch = await finish(client, batch.id)
    assert batch.request_counts.completed == 3
    assert (failures, count_made(routed.first)) == (4, 1)
    assert ("POST", CHAT) not in survey(routed.first)


async def test_a_rejected_batch_fails_with_the_vendors_reason(
    routed: RoutedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenAI checks the file after it has accepted the batch."""
    monkeypatch.setattr(openai_batches, "_find_error_code", lambda *_: "token_limit_exceeded")
    async with routed.run(TABLES), reach_openai(routed) as client:
        batch = await finish(client, (await create(client, [compose_line(0, "gpt")])).id)
        (line,) = (await read_lines(client, batch.error_file_id)).values()
    assert (batch.status, batch.request_counts.failed) == ("completed", 1)
    assert line["response"]["status_code"] == 400
    assert "token_limit_exceeded" in line["response"]["body"]["error"]["message"]
    assert ("POST", CHAT) not in survey(routed.first)


async def test_a_budget_that_is_too_small_is_used_request_by_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vibe_llms.daemons.gateway.batches.running.LONGEST_PAUSE_SECONDS", 0.0)
    async with Simulator() as vendor:
        providers = PROVIDER.format(vendor.url)
        routed = RoutedGateway(tmp_path, vendor, vendor, providers=providers)
        key = create_key(tmp_path / "keys", cents_per_day=2)
        # In a batch, the output of all is reserved at once.
        lines = [compose_line(number, "gpt", max_tokens=500) for number in range(30)]
        keys = KeyAuthorizer(tmp_path / "keys")
        async with routed.run(PRICED, authorizer=keys), reach_openai(routed, key) as client:
            batch = await finish(client, (await create(client, lines)).id)
    assert count_made(vendor) == 0
    assert batch.request_counts.completed > 0


async def test_foreign_keys_use_no_foreign_models(tmp_path: Path) -> None:
    async with Simulator() as vendor:
        routed = RoutedGateway(tmp_path, vendor, vendor)
        key = create_key(tmp_path / "keys", models=("claude*",))
        keys = KeyAuthorizer(tmp_path / "keys")
        async with routed.run(TABLES, authorizer=keys), reach_openai(routed, key) as client:
            lines = [compose_line(0, "gpt"), compose_line(0, "claude")]
            batch = await finish(client, (await create(client, lines)).id)
            (failed,) = (await read_lines(client, batch.error_file_id)).values()
    assert (batch.request_counts.completed, batch.request_counts.failed) == (1, 1)
    assert failed["response"]["status_code"] == 403
    assert count_made(vendor) == 1
