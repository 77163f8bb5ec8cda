"""Batches of embedders and moderators: here, on workers, and over their vendor's batches."""

from __future__ import annotations

import json
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.batches.batching import NEEDS_DBOS, choose_url
from support.batches.vendor_batching import gather
from vibe_llms.agents.batches import open_batches
from vibe_llms.application import Application
from vibe_llms.batches.channel import BatchChannel
from vibe_llms.batches.items import BatchInput
from vibe_llms.batches.vendor_channel import VendorBatchChannel
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import (
    CapabilityError,
    ConfigurationError,
    LimitError,
    RequestError,
)
from vibe_llms.instruments.embedders import Embedder
from vibe_llms.instruments.moderators import Moderator
from vibe_llms.plugins.manager import PluginManager
from vibe_llms.telemetry.prices import Price, price_usage
from vibe_llms.testing.clocks import HurriedClock
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.calls import draw

EMBEDDER = "openai_conversations:text-embedding-3-small"
MODERATOR = "openai_conversations:omni-moderation-latest"
TEXTS = [f"Sea {number}." for number in range(7)]


@asynccontextmanager
async def open_application(vendor: Simulator, simulate: str = "") -> AsyncIterator[Application]:
    """Loads an application whose vendor is the simulator; waits take no time."""
    url = vendor.access_url(simulate) if simulate else vendor.url
    providers = {
        "google": {"base_url": url, "api_key": "sk"},
        "openai_conversations": {"base_url": f"{url}/v1", "api_key": "sk"},
    }
    application = Application(load_configuration(command_line={"providers": providers}))
    application.plugins = PluginManager(
        configuration=application.configuration, clock=HurriedClock()
    )
    async with application:
        yield application


@pytest.fixture
async def vendor() -> AsyncIterator[Simulator]:
    """The vendor."""
    async with Simulator() as simulator:
        yield simulator


def ensure_vectors(values: Any, texts: list[str] = TEXTS, width: int = 8) -> None:
    """Checks that the values are the vectors of the texts."""
    assert all(isinstance(value, array) for value in values)
    assert [list(value) for value in values] == [
        pytest.approx(draw(text, width), abs=1e-6) for text in texts
    ]


async def test_texts_share_requests(vendor: Simulator) -> None:
    async with open_application(vendor) as application:
        channel = BatchChannel(Embedder(EMBEDDER, application=application, dimensions=5))
        report = await channel.collect(TEXTS)
    ensure_vectors(report.values, width=5)
    (request,) = vendor.requests
    assert (len(request.body["input"]), request.body["dimensions"]) == (7, 5)
    tokens = report.usage.input_tokens
    assert tokens == sum(item.usage.input_tokens or 0 for item in report.results if item.usage)
    assert tokens == 14


async def test_a_batch_is_continued_with_its_journal(vendor: Simulator, tmp_path: Path) -> None:
    journal = tmp_path / "vectors.jsonl"
    async with open_application(vendor) as application:
        embedder = Embedder(EMBEDDER, application=application)
        first = BatchChannel(embedder, journal=journal)
        await first.collect([BatchInput(text, text) for text in TEXTS[:3]])
        again = BatchChannel(embedder, journal=journal)
        report = await again.collect([BatchInput(text, text) for text in TEXTS])
        ensure_vectors(report.values)
        assert [item.is_stored for item in report.results] == [True] * 3 + [False] * 4
        others = Embedder(EMBEDDER, application=application, dimensions=4)
        with pytest.raises(RequestError, match="other settings"):
            await BatchChannel(others, journal=journal).collect(TEXTS)
    assert [len(each.body["input"]) for each in vendor.requests] == [3, 4]
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [line["id"] for line in lines] == TEXTS
    assert lines[0]["value"] == pytest.approx(draw(TEXTS[0]), abs=1e-6)


async def test_a_blank_text_fails_alone(vendor: Simulator) -> None:
    async with open_application(vendor) as application:
        channel = BatchChannel(Embedder(EMBEDDER, application=application))
        report = await channel.collect(["One.", " ", 3, "Two."])
    ensure_vectors(report.values, ["One.", "Two."])
    assert [failure.index for failure in report.failures] == [1, 2]
    assert all(isinstance(failure.error, RequestError) for failure in report.failures)


async def test_verdicts(vendor: Simulator) -> None:
    async with open_application(vendor) as application:
        channel = BatchChannel(Moderator(MODERATOR, application=application))
        report = await channel.collect(["A kind text.", "I will kill you."])
    assert len(vendor.requests) == 1
    assert [bool(value["categories"]) for value in report.values if value] == [False, True]


async def test_a_cap_holds(vendor: Simulator) -> None:
    texts = ["a sea " * 100 + str(number) for number in range(40)]
    async with open_application(vendor) as application:
        embedder = Embedder(EMBEDDER, application=application)
        channel = BatchChannel(embedder, cap=Decimal("0.00005"))
        with pytest.raises(LimitError, match="cap"):
            await gather(channel, texts)  # type: ignore[arg-type]
        assert 0 < channel.tally.done < len(texts)
        unpriced = Embedder("openai_conversations:unknown", application=application)
        with pytest.raises(ConfigurationError, match="price"):
            await BatchChannel(unpriced, cap=Decimal(1)).collect(texts)


@pytest.mark.parametrize("option", [{"system": "Be brief."}, {"parser": str}])
def test_options_of_conversations_are_refused(tmp_path: Path, option: dict[str, Any]) -> None:
    settings = {"journal": tmp_path / "vectors.jsonl", **option}
    kinds: list[Any] = [BatchChannel, VendorBatchChannel]
    for kind in kinds:
        with pytest.raises(TypeError, match="options of conversations"):
            kind(Embedder(EMBEDDER), **settings)


async def test_the_vendors_batches(vendor: Simulator, tmp_path: Path) -> None:
    journal = tmp_path / "vectors.jsonl"
    async with open_application(vendor, "batch_polls=3") as application:
        embedder = Embedder(EMBEDDER, application=application)
        channel = VendorBatchChannel(embedder, journal=journal)
        forecast = await channel.foresee(TEXTS)
        assert (forecast.requests, forecast.has_answers) == (7, False)
        assert 7 <= forecast.input_tokens <= 70
        report = await channel.collect(TEXTS)
        ensure_vectors(report.values)
        assert {item.tier for item in report.results} == {"batch"}
        again = await VendorBatchChannel(embedder, journal=journal).collect(TEXTS)
    ensure_vectors(again.values)
    paths = [(each.method, each.path.rpartition("/v1")[2]) for each in vendor.requests]
    assert paths.count(("POST", "/batches")) == 1
    assert ("POST", "/embeddings") not in paths
    item = report.results[0]
    assert item.origin is not None
    names = {"provider": item.origin.provider, "model": "text-embedding-3-small"}
    whole, half = price_usage(item.usage, **names), price_usage(item.usage, **names, tier="batch")
    assert isinstance(whole, Price)
    assert isinstance(half, Price)
    assert half.amount == whole.amount / 2


async def test_googles_batches_of_vectors(vendor: Simulator, tmp_path: Path) -> None:
    async with open_application(vendor, "batch_polls=3") as application:
        embedder = Embedder(
            "google:gemini-embedding-001", application=application, dimensions=5, purpose="query"
        )
        channel = VendorBatchChannel(embedder, journal=tmp_path / "vectors.jsonl")
        report = await channel.collect(TEXTS)
    ensure_vectors(report.values, width=5)
    assert report.usage.input_tokens == 14
    (submission,) = [each for each in vendor.requests if each.method == "POST"]
    assert submission.path.endswith("/models/gemini-embedding-001:asyncBatchEmbedContent")
    first = submission.body["batch"]["inputConfig"]["requests"]["requests"][0]
    assert first["request"]["taskType"] == "RETRIEVAL_QUERY"


async def test_verdicts_of_the_vendors_batches(vendor: Simulator, tmp_path: Path) -> None:
    async with open_application(vendor) as application:
        moderator = Moderator(MODERATOR, application=application)
        channel = VendorBatchChannel(moderator, journal=tmp_path / "verdicts.jsonl")
        report = await channel.collect(["A kind text.", "I will kill you."])
    assert [bool(value["categories"]) for value in report.values if value] == [False, True]
    assert [each.path[-8:] for each in vendor.requests].count("/batches") == 1


async def test_a_vendor_without_batches_is_named(vendor: Simulator, tmp_path: Path) -> None:
    async with open_application(vendor) as application:
        embedder = Embedder("scripted:words", application=application)
        channel = VendorBatchChannel(embedder, journal=tmp_path / "vectors.jsonl")
        with pytest.raises(CapabilityError, match="scripted"):
            await channel.collect(TEXTS)


@pytest.mark.slow
@pytest.mark.parametrize("base", [pytest.param("sqlite", marks=NEEDS_DBOS)])
async def test_workers_give_the_same(vendor: Simulator, tmp_path: Path, base: str) -> None:
    url = choose_url(base, tmp_path)
    async with (
        open_application(vendor) as application,
        open_batches(url, application=application, chunk=5) as runner,
    ):
        embedder = Embedder(EMBEDDER, application=application, dimensions=6)
        channel = BatchChannel(embedder, runner=runner, cap=Decimal(1), key="seas")
        report = await channel.collect(TEXTS)
        ensure_vectors(report.values, width=6)
        moderator = Moderator(MODERATOR, application=application)
        verdicts = await BatchChannel(moderator, runner=runner).collect(["I will kill you."])
        assert runner is not None
        summary = await runner.find(channel.batch)
    assert verdicts.values[0]["categories"]  # type: ignore[index]
    assert (summary.done, summary.input_tokens, summary.unpriced) == (7, 14, 0)
    embedded = [each for each in vendor.requests if each.path.endswith("/embeddings")]
    assert sum(len(each.body["input"]) for each in embedded) == 7
    assert len(embedded) < 7
