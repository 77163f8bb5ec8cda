"""A batch goes by its vendor's own batches: submitted, waited for, read, gone on with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import attrs
import pytest

from support.batches.vendor_batching import (
    MODELS,
    advance_all,
    ask,
    gather,
    is_lost_batch,
    is_submission,
    open_channel,
    read_lines,
)
from vibe_llms.batches.channel import BatchChannel
from vibe_llms.batches.items import BatchInput
from vibe_llms.batches.submitting import (
    ARRIVING_SECONDS,
    FIRST_PAUSE_SECONDS,
    ChunkCourse,
    ChunkNews,
    lengthen,
)
from vibe_llms.batches.vendor_channel import VendorBatchChannel
from vibe_llms.batches.vendor_chunks import find_path
from vibe_llms.exceptions import (
    CapabilityError,
    ConverseError,
    LimitError,
    ParseError,
    ProviderError,
    ProviderFault,
    RequestError,
    StoreError,
    StreamTruncatedError,
    TranslationLossError,
    TransportError,
)
from vibe_llms.instruments.engines import Engine
from vibe_llms.providers.batches import BatchBounds, Sighting
from vibe_llms.providers.batching import AnyBatches, ModelBatches
from vibe_llms.telemetry.prices import Price, price_usage
from vibe_llms.testing.clocks import HurriedClock
from vibe_llms.testing.simulator import SynchronousSimulator

VENDORS = ["anthropic", "google", "openai_responses"]
"""One of each way; the fourth provider asks OpenAI by the other protocol."""
TEXTS = ["One.", "Two.", "Three."]


class Death(BaseException):
    """The process is gone: nothing behind it is performed."""


@pytest.fixture
def simulator() -> Iterator[SynchronousSimulator]:
    """The vendors."""
    with SynchronousSimulator() as running:
        yield running


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Where the items go."""
    return tmp_path / "answers.jsonl"


def count_submissions(simulator: SynchronousSimulator) -> int:
    """Returns how many batches were made, heard of or not."""
    return sum(map(is_submission, simulator.requests))


async def perform(
    provider: str, simulator: SynchronousSimulator, output: Path, inputs: Any = TEXTS, **more: Any
) -> list[Any]:
    """Runs a batch to its end."""
    simulate, stored = more.pop("simulate", "batch_polls=1"), more.pop("stored", True)
    async with open_channel(provider, simulator.access_url(simulate), output, **more) as channel:
        return await gather(channel, inputs, stored=stored)


def leave(news: ChunkNews) -> None:
    """Dies when something was submitted."""
    if news.course is ChunkCourse.SUBMITTED:
        raise Death


async def break_off(
    provider: str, simulator: SynchronousSimulator, output: Path, inputs: Any = TEXTS, **more: Any
) -> None:
    """Runs a batch until it is submitted, and leaves it at the vendor."""
    async with open_channel(provider, simulator.access_url("batch_polls=2"), output) as channel:
        channel._listener = leave
        with pytest.raises(Death):
            await gather(channel, inputs, **more)


def check_whole(output: Path, texts: list[str] = TEXTS) -> list[dict[str, Any]]:
    """Makes sure that each input has one line, in order, and that nothing else is left."""
    lines = read_lines(output)
    assert [line["text"] for line in lines] == texts
    assert [line["index"] for line in lines] == list(range(len(texts)))
    assert not find_path(output).exists()
    return lines


@pytest.mark.parametrize("provider", MODELS)
async def test_inputs_are_submitted_at_once_and_read_when_they_are_answered(
    simulator: SynchronousSimulator, output: Path, provider: str
) -> None:
    """In any order; each line says by which way it came, and nothing is left beside the output."""
    inputs, news = ["One.", BatchInput("Two.", id="b"), "Three."], list[ChunkNews]()

    items = await perform(
        provider, simulator, output, inputs, simulate="batch_polls=3", listener=news.append
    )

    assert sorted((item.index, item.id, item.text) for item in items) == [
        (0, None, "One."),
        (1, "b", "Two."),
        (2, None, "Three."),
    ]
    lines = check_whole(output)
    assert {line["tier"] for line in lines} == {"batch"}
    assert lines[0]["origin"]["provider"] == provider
    assert lines[0]["usage"]["output_tokens"] > 0
    assert count_submissions(simulator) == 1
    courses = [each.course for each in news]
    assert courses == [ChunkCourse.SUBMITTED, *[ChunkCourse.WAITING] * 3, ChunkCourse.ENDED]
    assert news[0].vendor
    assert news[0].requests == 3


@pytest.mark.parametrize("provider", VENDORS)
async def test_another_process_goes_on_with_what_is_at_the_vendor(
    simulator: SynchronousSimulator, output: Path, provider: str
) -> None:
    """Nothing is submitted again; new inputs are, and the vendor has both."""
    await break_off(provider, simulator, output)
    assert find_path(output).exists()

    items = await perform(provider, simulator, output, [*TEXTS, "Four."])

    assert sorted(item.index for item in items) == [0, 1, 2, 3]
    assert count_submissions(simulator) == 2
    check_whole(output, [*TEXTS, "Four."])


async def test_a_batch_that_is_done_is_read_from_its_output(
    simulator: SynchronousSimulator, output: Path
) -> None:
    """The vendor is not asked, and either channel goes on with the output of the other."""
    await perform("anthropic", simulator, output)
    asked = len(simulator.requests)

    stored = await perform("anthropic", simulator, output)

    assert all(item.is_stored and item.tier == "batch" for item in stored)
    assert len(simulator.requests) == asked
    async with open_channel("anthropic", simulator.url, output) as channel:
        direct = BatchChannel(channel._work._model, journal=output)
        report = await direct.collect(TEXTS)
    assert [item.tier for item in report.results] == ["batch"] * 3
    assert len(simulator.requests) == asked


# --- who dies ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("provider", VENDORS)
@pytest.mark.parametrize("has_arrived", [False, True])
async def test_an_intent_whose_batch_nobody_heard_of_is_looked_for(
    simulator: SynchronousSimulator,
    output: Path,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    has_arrived: bool,
) -> None:
    """What the vendor has is found, and what it has not is submitted: the vendor has it once."""
    submit = ModelBatches.submit

    async def die(self: AnyBatches, *given: Any) -> str:
        if has_arrived:
            vendor = await submit(self, *given)
            if provider == "anthropic":  # which says whose it is when it has ended
                await self.poll(vendor)
        raise Death

    with monkeypatch.context() as patched:
        patched.setattr(ModelBatches, "submit", die)
        with pytest.raises(Death):
            await perform(provider, simulator, output)
    news: list[ChunkNews] = []

    items = await perform(provider, simulator, output, listener=news.append)

    assert len(items) == 3
    assert count_submissions(simulator) == 1
    courses = [each.course for each in news]
    assert (ChunkCourse.FOUND in courses) is has_arrived
    assert (ChunkCourse.ABSENT in courses) is not has_arrived
    check_whole(output)


async def test_what_may_still_arrive_is_waited_for(
    simulator: SynchronousSimulator, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that was on its way when its sender died is not sent a second time."""
    submit = ModelBatches.submit
    late: list[Callable[[], Any]] = []

    async def die(self: AnyBatches, *given: Any) -> str:
        late.append(lambda: submit(self, *given))
        raise Death

    async with open_channel("openai_responses", simulator.url, output) as channel:
        with monkeypatch.context() as patched:
            patched.setattr(ModelBatches, "submit", die)
            with pytest.raises(Death):
                await gather(channel, TEXTS)
        find, looks = ModelBatches.find, 0

        async def find_late(self: AnyBatches, *given: Any, **more: Any) -> Sighting:
            nonlocal looks
            looks += 1
            if looks == 3:
                await late[0]()
            return await find(self, *given, **more)

        monkeypatch.setattr(ModelBatches, "find", find_late)
        await gather(channel, TEXTS)

    assert looks == 3
    assert count_submissions(simulator) == 1
    check_whole(output)


@pytest.mark.parametrize("dies", [False, True])
async def test_what_was_sent_again_may_still_arrive_as_long_as_the_first_might(
    simulator: SynchronousSimulator, output: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """Two minutes count from the last time that it was sent, also for who comes after a crash."""
    submit, find, clock = ModelBatches.submit, ModelBatches.find, HurriedClock()
    monkeypatch.setattr("vibe_llms.batches.submitting.time", Mock(time=clock.read))
    late: list[Any] = []
    looks = 0

    async def break_off(self: AnyBatches, *given: Any) -> str:
        late.append(given)
        if dies and len(late) == 2:
            raise Death
        raise TransportError(detail="broken off")

    async def find_late(self: AnyBatches, *given: Any, **more: Any) -> Sighting:
        nonlocal looks
        looks += len(late) == 2
        if looks == 3:
            await submit(self, *late[1])
        return await find(self, *given, **more)

    monkeypatch.setattr(ModelBatches, "submit", break_off)
    monkeypatch.setattr(ModelBatches, "find", find_late)
    for _ in range(1 + dies):
        async with open_channel("openai_responses", simulator.url, output, clock=clock) as channel:
            with suppress(Death):
                await gather(channel, TEXTS)

    assert len(late) == 2
    assert count_submissions(simulator) == 1
    check_whole(output)


@pytest.mark.slow
async def test_a_batch_under_way_that_may_be_ours_is_waited_for(
    simulator: SynchronousSimulator, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anthropic says whose a batch is when it has ended; others of the same size are not ours."""
    others = {"model": MODELS["anthropic"], "max_tokens": 9, "messages": []}
    said = [{"role": "user", "content": "Hello."}]
    requests = [{"custom_id": f"x-{n}", "params": {**others, "messages": said}} for n in range(3)]
    other = ask(simulator.url, "/v1/messages/batches", {"requests": requests})["id"]
    submit = ModelBatches.submit

    async def die(self: AnyBatches, *given: Any) -> str:
        await submit(self, *given)
        raise Death

    with monkeypatch.context() as patched:
        patched.setattr(ModelBatches, "submit", die)
        with pytest.raises(Death):
            await perform("anthropic", simulator, output, simulate="batch_polls=1")
    ask(simulator.url, f"/v1/messages/batches/{other}")
    waited = 0

    def end_it(news: ChunkNews) -> None:
        nonlocal waited
        waited += is_lost_batch(news)
        if waited == 200:  # for longer than what is not there would be waited for
            advance_all(simulator.url)

    async with open_channel("anthropic", simulator.url, output) as channel:
        channel._listener = end_it
        await gather(channel, TEXTS)

    assert waited == 200
    assert count_submissions(simulator) == 2  # the other's among them
    check_whole(output)


async def test_batches_of_ours_that_are_known_are_not_waited_for(
    simulator: SynchronousSimulator, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those of which nobody has heard may be what is looked for."""
    await break_off("anthropic", simulator, output, ["One."])

    async def die(self: AnyBatches, *given: Any) -> str:
        raise Death

    with monkeypatch.context() as patched:
        patched.setattr(ModelBatches, "submit", die)
        with pytest.raises(Death):
            await perform("anthropic", simulator, output, ["One.", "Two."])
    news: list[ChunkNews] = []

    def hear(each: ChunkNews) -> None:
        news.append(each)
        assert sum(map(is_lost_batch, news)) < 100, "it waits for a batch that is known"

    await perform("anthropic", simulator, output, ["One.", "Two."], listener=hear)

    assert ChunkCourse.ABSENT in [each.course for each in news]
    check_whole(output, ["One.", "Two."])


async def test_batches_of_others_are_not_taken_for_ours(
    simulator: SynchronousSimulator, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of OpenAI's carry whose they are, however alike they look, and however many."""
    await break_off_unheard(simulator, output, monkeypatch)
    for number in range(3):
        other = output.with_name(f"other-{number}.jsonl")
        await perform("openai_responses", simulator, other)
    monkeypatch.setattr("vibe_llms.providers.openai_batches._PAGE", 2)
    news: list[ChunkNews] = []

    await perform("openai_responses", simulator, output, listener=news.append)

    assert ChunkCourse.FOUND in [each.course for each in news]
    assert count_submissions(simulator) == 4
    check_whole(output)


@pytest.mark.parametrize("provider", VENDORS)
async def test_a_batch_that_was_taken_without_an_answer_is_found_at_once(
    simulator: SynchronousSimulator, output: Path, provider: str
) -> None:
    """The connection breaks after the vendor took it: it is not submitted a second time."""
    news: list[ChunkNews] = []

    def hear(each: ChunkNews) -> None:
        news.append(each)
        if is_lost_batch(each):
            advance_all(simulator.url)

    await perform(provider, simulator, output, simulate="batch_unanswered", listener=hear)

    assert ChunkCourse.FOUND in [each.course for each in news]
    assert count_submissions(simulator) == 1
    check_whole(output)


async def test_what_cannot_be_looked_for_is_told_of_as_perhaps_billed(
    simulator: SynchronousSimulator, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays as it is, and others go on; a person may have it submitted again, and pay twice."""
    await break_off_unheard(simulator, output, monkeypatch)

    async def fail(self: AnyBatches, *given: Any, **more: Any) -> Sighting:
        raise ProviderError(fault=ProviderFault.PERMISSION, detail="no lists for you", status=403)

    with monkeypatch.context() as patched:
        patched.setattr(ModelBatches, "find", fail)
        for _ in range(2):
            with pytest.raises(ConverseError, match=r"3 requests may be .* billed.*no lists"):
                await perform("openai_responses", simulator, output, [*TEXTS, "Four."])
        assert [line["text"] for line in read_lines(output)] == ["Four."]
        assert count_submissions(simulator) == 2  # the first, and that of the fourth
        with patched.context() as again:
            again.setattr(ModelBatches, "find", fail)
            await perform("openai_responses", simulator, output, [*TEXTS, "Four."], resubmits=True)
    assert count_submissions(simulator) == 3
    check_whole(output, [*TEXTS, "Four."])


@pytest.mark.slow
@pytest.mark.parametrize("is_there", [True, False])
async def test_what_is_in_doubt_is_looked_for_once_more_at_the_end(
    simulator: SynchronousSimulator,
    output: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_there: bool,
) -> None:
    """What is found is read in the same run; what is not is told of, and submitted by the next."""
    await break_off_unheard(simulator, output, monkeypatch)
    if not is_there:
        simulator._state.stored.clear()
    find, refusals = ModelBatches.find, [1]

    async def fail_once(self: AnyBatches, *given: Any, **more: Any) -> Sighting:
        if refusals:
            raise ProviderError(
                fault=ProviderFault.PERMISSION, detail="not now", status=refusals.pop()
            )
        return await find(self, *given, **more)

    monkeypatch.setattr(ModelBatches, "find", fail_once)
    if not is_there:
        with pytest.raises(ConverseError, match="3 requests did not reach the vendor"):
            await perform("openai_responses", simulator, output)
    await perform("openai_responses", simulator, output)

    assert count_submissions(simulator) == 1 + (not is_there)
    check_whole(output)


async def break_off_unheard(
    simulator: SynchronousSimulator, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Submits a batch of OpenAI's, and dies before the vendor's name of it is written down."""
    submit = ModelBatches.submit

    async def die(self: AnyBatches, *given: Any) -> str:
        await submit(self, *given)
        raise Death

    with monkeypatch.context() as patched:
        patched.setattr(ModelBatches, "submit", die)
        with pytest.raises(Death):
            await perform("openai_responses", simulator, output)


@pytest.mark.slow
@pytest.mark.parametrize("provider", VENDORS)
@pytest.mark.parametrize("written", [1, 3])
async def test_reading_goes_on_where_it_was_broken_off(
    simulator: SynchronousSimulator, output: Path, provider: str, written: int
) -> None:
    """Whoever dies while results are read, or before it is said that all were, loses none."""
    async with open_channel(provider, simulator.access_url("batch_polls=1"), output) as channel:
        run = channel.run(TEXTS)
        told = [await anext(run) for _ in range(written)]
        await run.aclose()

    rest = await perform(provider, simulator, output, stored=False)

    assert len(told) + len(rest) == 3
    assert count_submissions(simulator) == 1
    check_whole(output)


@pytest.mark.parametrize("provider", VENDORS)
async def test_results_that_break_off_are_read_again(
    simulator: SynchronousSimulator,
    output: Path,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
) -> None:
    """From the beginning, and what was written already is not written again."""
    read, reads = ModelBatches.read, 0

    def break_once(self: AnyBatches, state: Any) -> Any:
        nonlocal reads
        reads += 1
        return read(self, state) if reads > 1 else break_read(self, state)

    async def break_read(self: AnyBatches, state: Any) -> Any:
        async for result in read(self, state):
            yield result
            raise ProviderError(fault=ProviderFault.SERVER, detail="gone", status=500)

    monkeypatch.setattr(ModelBatches, "read", break_once)

    items = await perform(provider, simulator, output)

    assert reads == 2
    assert sorted(item.index for item in items) == [0, 1, 2]
    check_whole(output)


async def test_results_that_are_too_few_have_not_come(
    simulator: SynchronousSimulator, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each request has a line, one that is missing is no cancelled one."""
    from vibe_llms.testing.simulator import batches

    write, writes = batches._write_message_results, 0

    def write_less(batch: Any) -> Any:
        nonlocal writes
        writes += 1
        lines = list(write(batch))
        return lines[:2] if writes == 1 else lines

    monkeypatch.setattr(batches, "_write_message_results", write_less)

    await perform("anthropic", simulator, output)

    assert writes == 2
    check_whole(output)


# --- what fails ----------------------------------------------------------------------------


@pytest.mark.parametrize("provider", VENDORS)
async def test_each_failure_is_an_item_and_may_be_asked_again(
    simulator: SynchronousSimulator, output: Path, provider: str
) -> None:
    """An error, an expiry, and an input that cannot be asked: each for itself."""
    texts, unfit = ["One.", "Two.", "Three."], {"no": "prompt"}

    items = await perform(
        provider, simulator, output, [*texts, unfit], simulate="batch_errors,batch_expires"
    )

    errors: dict[int, Any] = {item.index: item.error for item in items if item.has_failed}
    if provider == "google":  # there, a batch expires as a whole
        assert sorted(errors) == [0, 1, 2, 3]
        assert errors[0].fault is errors[1].fault is ProviderFault.TIMEOUT
    else:
        assert sorted(errors) == [0, 2, 3]
        assert errors[0].fault is ProviderFault.SERVER
    assert errors[2].fault is ProviderFault.TIMEOUT
    assert "not billed" in str(errors[2])
    assert isinstance(errors[3], RequestError)
    assert "tier" not in read_lines(output)[2]
    assert not find_path(output).exists()
    assert count_submissions(simulator) == 1

    again = await perform(
        provider, simulator, output, texts, retry_failed=True, stored=False, simulate="batch_polls"
    )

    assert sorted(item.index for item in again) == [
        index for index in sorted(errors) if index < len(texts)
    ]
    assert [line["text"] for line in read_lines(output)][:3] == texts
    assert count_submissions(simulator) == 2


@pytest.mark.parametrize("provider", VENDORS)
async def test_what_was_asked_again_counts_though_its_failure_is_older(
    simulator: SynchronousSimulator, output: Path, provider: str
) -> None:
    """Failures that are asked again are read by whoever comes, also without the option."""
    await perform(provider, simulator, output, simulate="batch_errors=3")
    async with open_channel(
        provider, simulator.access_url("batch_polls=1"), output, retry_failed=True
    ) as channel:
        run = channel.run(TEXTS, stored=False)
        await anext(run)
        await run.aclose()

    await perform(provider, simulator, output)

    assert count_submissions(simulator) == 2
    check_whole(output)


@pytest.mark.slow
@pytest.mark.parametrize("provider", VENDORS)
async def test_a_batch_is_cancelled_and_says_so_of_each(
    simulator: SynchronousSimulator, output: Path, provider: str
) -> None:
    """What the vendor cancelled is a failure that was not billed, also where it says nothing."""
    await break_off(provider, simulator, output)

    async with open_channel(provider, simulator.url, output) as channel:
        assert await channel.cancel() == 1
    items = await perform(provider, simulator, output)

    assert len(items) == 3
    assert all("cancelled" in str(item.error) for item in items)
    assert count_submissions(simulator) == 1
    async with open_channel(provider, simulator.url, output) as channel:
        assert await channel.cancel() == 0


async def test_a_file_that_is_refused_as_a_whole_fails_each_of_its_inputs(
    simulator: SynchronousSimulator, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the vendor's words."""
    monkeypatch.setattr("vibe_llms.testing.simulator.openai_batches.LINES_LIMIT", 2)

    items = await perform("openai_responses", simulator, output)

    assert len(items) == 3
    assert all("the whole batch was rejected: too_many_tasks" in str(each.error) for each in items)


async def test_a_batch_that_the_vendor_has_not_any_more_is_lost(
    simulator: SynchronousSimulator, output: Path
) -> None:
    """Its inputs fail, and can be asked again by whoever accepts that they may have been billed."""
    await break_off("anthropic", simulator, output)
    name = ask(simulator.url, "/v1/messages/batches")["data"][0]["id"]
    del simulator._state.stored[name]
    news: list[ChunkNews] = []

    items = await perform("anthropic", simulator, output, listener=news.append)

    assert [each.course for each in news] == [ChunkCourse.LOST]
    assert {item.error.fault for item in items} == {ProviderFault.NOT_FOUND}
    assert await perform("anthropic", simulator, output, retry_failed=True, stored=False)


async def test_what_the_vendor_refuses_was_not_submitted(
    simulator: SynchronousSimulator, output: Path
) -> None:
    """A refusal ends the run; the next one submits, and does not look for it first."""
    simulator.switch("rate_limit=1")
    await perform("anthropic", simulator, output, ["Zero."])  # haste alone is repeated
    with pytest.raises(ProviderError):
        await perform(
            "anthropic",
            simulator,
            output,
            ["Zero.", *TEXTS],
            limits={"attempts": 1},
            simulate="rate_limit=9",
        )
    news: list[ChunkNews] = []

    await perform("anthropic", simulator, output, ["Zero.", *TEXTS], listener=news.append)

    assert ChunkCourse.ABSENT not in [each.course for each in news]
    check_whole(output, ["Zero.", *TEXTS])


# --- what goes in --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("provider", VENDORS)
@pytest.mark.parametrize("bounds", [{"requests": 2}, {"bytes": 900}])
async def test_many_inputs_are_submitted_as_several_batches(
    simulator: SynchronousSimulator,
    output: Path,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    bounds: dict[str, int],
) -> None:
    """None has more requests, nor more bytes, than a vendor takes; each result finds its item."""
    narrow = attrs.evolve(BatchBounds(requests=100, bytes=100_000), **bounds)
    init = ModelBatches.__init__

    def narrow_down(self: AnyBatches, *given: Any) -> None:
        init(self, *given)
        self.bounds = narrow

    monkeypatch.setattr(ModelBatches, "__init__", narrow_down)
    texts = [f"{number} {'x' * 200}" for number in range(5)]

    await perform(provider, simulator, output, texts)

    check_whole(output, texts)
    assert count_submissions(simulator) > 1
    name = b'"key"' if provider == "google" else b'"custom_id"'
    sent = [each.data for each in simulator.requests if name in each.data]
    assert len(sent) > 1
    for data in sent:
        assert data.count(name) <= narrow.requests
        assert len(data) <= narrow.bytes + 1_000


async def test_an_input_that_no_batch_has_room_for_is_a_failure(
    simulator: SynchronousSimulator, output: Path
) -> None:
    """It names the limit, and the others are asked."""
    items = await perform(
        "anthropic", simulator, output, ["x" * 9_000, "Two."], limits={"request_bytes": 5_000}
    )

    assert {item.index: type(item.error) for item in items} == {0: LimitError, 1: type(None)}
    assert items[0].error.limit == "request_bytes"


async def test_losses_are_told_of_with_the_item(
    simulator: SynchronousSimulator, output: Path
) -> None:
    """Though they arose hours before, and in another process; strict refuses them."""
    async with open_channel("anthropic", simulator.access_url("batch_polls=2"), output) as channel:
        model = channel._work._model
        model._lenient, model.controls = True, {"sparkle": 1}
        channel._listener = leave
        with pytest.raises(Death):
            await gather(channel, TEXTS)
        channel._listener = None
        items = await gather(channel, TEXTS)
        assert all("sparkle" in item.losses[0] for item in items)
        assert read_lines(output)[0]["losses"] == list(items[0].losses)

        model.strict = True
        channel.journal = output.with_name("strict.jsonl")
        with pytest.raises(TranslationLossError):
            await gather(channel, TEXTS)


async def test_answers_become_values_and_what_does_not_fit_fails(
    simulator: SynchronousSimulator, output: Path
) -> None:
    """Nobody is asked to mend an answer of a batch; what it used is counted nevertheless."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    from vibe_llms.instruments.parsers.parsers import Parser

    parser = Parser(schema, mode="prompt")

    items = await perform(
        "anthropic", simulator, output, ['Say {"n": 5}', "Say nothing."], parser=parser
    )

    found = {item.index: item for item in items}
    assert isinstance(found[1].error, ParseError) or found[1].value is not None
    assert all(item.origin is not None and item.tier == "batch" for item in items)


async def test_what_is_about_to_be_submitted_can_be_foreseen(
    simulator: SynchronousSimulator, output: Path
) -> None:
    """Before anything is sent; what is at the vendor, or answered, is not in it."""
    inputs = [*TEXTS, {"no": "prompt"}]
    async with open_channel("anthropic", simulator.access_url("batch_polls=2"), output) as channel:
        forecast = await channel.foresee(inputs)
        assert not simulator.requests
        channel._listener = leave
        with pytest.raises(Death):
            await gather(channel, inputs)
        later = await channel.foresee([*inputs, "Four."])

    assert (forecast.requests, forecast.unfit) == (3, 1)
    assert (forecast.provider, forecast.name) == ("anthropic", MODELS["anthropic"])
    assert forecast.bytes > 100
    assert 3 * 3 < forecast.input_tokens < 3 * 30
    assert (later.requests, later.unfit) == (1, 0)


async def test_items_come_in_order_where_that_is_asked_for(
    simulator: SynchronousSimulator, output: Path
) -> None:
    """All of them at the end, then, with those of before."""
    await perform("anthropic", simulator, output, ["One."])
    async with open_channel("anthropic", simulator.access_url("batch_polls"), output) as channel:
        report = await channel.collect(TEXTS)

    assert report.values == tuple(TEXTS)
    assert [item.is_stored for item in report.results] == [True, False, False]
    assert report.tally.done == 2
    assert report.tally.stored == 1


@pytest.mark.parametrize(
    ("controls", "version"), [({}, "2026-10-21"), ({"temperature": 0.5}, "2023-06-01")]
)
async def test_headers_are_those_that_the_requests_want(
    simulator: SynchronousSimulator, output: Path, controls: dict[str, Any], version: str
) -> None:
    """Of all requests of a batch together: the version of the protocol that takes a temperature."""
    async with open_channel("anthropic", simulator.access_url("batch_polls"), output) as channel:
        channel._work._model.controls = controls
        await gather(channel, TEXTS)

    made = next(each for each in simulator.requests if each.path.endswith("/batches"))
    assert made.headers["anthropic-version"] == version


# --- what is refused -----------------------------------------------------------------------


async def test_providers_without_batches_are_refused_and_others_named(output: Path) -> None:
    """So are clouds, whose batches are others; and work that is no model's."""
    with pytest.raises(CapabilityError, match="openai_responses") as caught:
        await gather(VendorBatchChannel("scripted:echo", journal=output), TEXTS)
    assert "anthropic" in caught.value.remedy
    produce: Any = VendorBatchChannel
    with pytest.raises(TypeError):
        produce(Engine("scripted:echo"), journal=output)


async def test_other_settings_and_other_inputs_are_refused(
    simulator: SynchronousSimulator, output: Path
) -> None:
    """As long as something is at the vendor, and by the other channel altogether."""
    await break_off("anthropic", simulator, output)
    output.unlink()  # what was submitted is known without it

    with pytest.raises(RequestError, match="another input"):
        await perform("anthropic", simulator, output, ["Something else."])
    with pytest.raises(RequestError, match="other settings"):
        await perform("anthropic", simulator, output, system="Be brief.")
    async with open_channel("anthropic", simulator.url, output) as channel:
        direct = BatchChannel(channel._work._model, journal=output)
        with pytest.raises(RequestError, match="bill them twice"):
            await direct.collect(TEXTS)
        first = channel.run(TEXTS)
        await anext(first)
        with pytest.raises(StoreError, match="Another batch is writing"):
            await perform("anthropic", simulator, output)
        await first.aclose()
    await perform("anthropic", simulator, output)
    check_whole(output)
    assert count_submissions(simulator) == 1


def test_an_answer_of_a_batch_costs_half(simulator: SynchronousSimulator) -> None:
    """In every bucket, with the source; where nobody knows what is asked, nothing is said."""
    from vibe_llms.messages.canisters import Usage

    usage = Usage(input_tokens=1_000, output_tokens=500, cache_read_tokens=20_000)
    for provider, model in MODELS.items():
        model = "gpt-5" if provider.startswith("openai") else model
        usual = price_usage(usage, provider=provider, model=model)
        half = price_usage(usage, provider=provider, model=model, tier="batch")
        assert isinstance(usual, Price)
        assert isinstance(half, Price)
        assert half.amount * 2 == usual.amount > 0
        assert [each.amount * 2 for each in half.buckets] == [each.amount for each in usual.buckets]
        assert "50% as of https://" in half.source
    unknown = price_usage(usage, provider="groq", model="llama-3.3-70b-versatile", tier="batch")
    assert not isinstance(unknown, Price)


def test_pauses_grow_to_a_bound() -> None:
    """Soon at first, once a minute at the end; and what is on its way has time to arrive."""
    pause, pauses = FIRST_PAUSE_SECONDS, []
    for _ in range(20):
        pauses.append(pause)
        pause = lengthen(pause)
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60
    assert pauses[0] < 5 < ARRIVING_SECONDS


# --- results that are not all there --------------------------------------------------------


def spoil_files(simulator: SynchronousSimulator, patched: pytest.MonkeyPatch, most: int) -> None:
    """Leaves so many of the results that OpenAI has of what has ended; of none it has no file."""
    poll = ModelBatches.poll

    async def spoil(self: AnyBatches, identity: str) -> Any:
        state = await poll(self, identity)
        stored = simulator._state.stored
        for key, each in list(stored.items()):
            if getattr(each, "purpose", "") == "batch_output":
                data = b"".join(each.data.splitlines(keepends=True)[:most])
                stored[key] = attrs.evolve(each, data=data)
                if not data:
                    del stored[key]
        return state

    patched.setattr(ModelBatches, "poll", spoil)


@pytest.mark.slow
async def test_results_that_are_cut_are_no_cancellations(
    simulator: SynchronousSimulator, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said how many came; the next run reads them all, and nothing is billed twice."""
    with monkeypatch.context() as patched:
        spoil_files(simulator, patched, 2)
        with pytest.raises(StreamTruncatedError, match="Received 2 of 3 results of the batch"):
            await perform("openai_responses", simulator, output)
    assert [line["text"] for line in read_lines(output)] == TEXTS[:2]
    assert find_path(output).exists()


async def test_results_that_the_vendor_has_no_more_end_each_item(
    simulator: SynchronousSimulator, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an error that says so, rather than each run of the batch anew."""
    with monkeypatch.context() as patched:
        spoil_files(simulator, patched, 0)
        items = await perform("openai_responses", simulator, output)

    assert [type(item.error) for item in items] == [ProviderError] * 3
    assert all("batch" in str(item.error) for item in items)
    assert not find_path(output).exists()
    mended = await perform("openai_responses", simulator, output, retry_failed=True)
    assert sorted(item.text for item in mended) == sorted(TEXTS)
