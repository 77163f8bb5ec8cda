"""Texts of many inputs share requests, and each gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from vibe_llms.batches.call_joining import CallJoiner, divide_usage
from vibe_llms.exceptions import ProviderError, ProviderFault
from vibe_llms.messages.canisters import Origin, Usage
from vibe_llms.messages.moderations import Moderation, ModerationRequest, ModerationVerdict

PATTERN = ModerationRequest(texts=("pattern",))


class Model:
    """Answers each text with its letters; records the requests."""

    max_inputs = 4
    max_bytes = 100

    def __init__(self, refuse: Callable[[str], ProviderFault | None] = lambda text: None) -> None:
        self.requests: list[tuple[str, ...]] = []
        self.refuse = refuse
        self.received, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self.running = self.most_running = 0

    async def call(self, request: ModerationRequest) -> Moderation:
        self.requests.append(request.texts)
        self.received.set()
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        await self.may_answer.wait()
        await asyncio.sleep(0)
        self.running -= 1
        for fault in filter(None, map(self.refuse, request.texts)):
            raise ProviderError(provider="p", fault=fault, detail="no")
        verdicts = tuple(ModerationVerdict(categories=(text,), scores={}) for text in request.texts)
        usage = Usage(input_tokens=sum(map(len, request.texts)))
        origin = Origin(provider="p", model="m", usage=usage)
        return Moderation(verdicts=verdicts, origin=origin)


def make_joiner(model: Model, concurrency: int = 2) -> CallJoiner:
    joined: Any = model
    return CallJoiner(joined, PATTERN, concurrency)


async def call_all(joiner: CallJoiner, texts: list[str]) -> list[Any]:
    """Returns the words that answer the texts, or their errors."""

    async def call(text: str) -> Any:
        answer = await joiner.call(text)
        return answer.result[answer.place].categories[0]

    return await asyncio.gather(*map(call, texts), return_exceptions=True)


async def test_each_text_gets_its_own_answer() -> None:
    model = Model()
    texts = [f"text {number}" for number in range(10)]
    assert await call_all(make_joiner(model), texts) == texts
    assert [len(request) for request in model.requests] == [4, 4, 2]


async def test_a_request_has_no_more_bytes_than_the_vendor_allows() -> None:
    model = Model()
    texts = ["a" * 60, "b" * 60, "c" * 30, "d" * 200]
    assert await call_all(make_joiner(model), texts) == texts
    assert [[text[0] for text in request] for request in model.requests] == [
        ["a"],
        ["b", "c"],
        ["d"],
    ]


async def test_no_more_requests_are_under_way_than_the_concurrency() -> None:
    model = Model()
    texts = [f"{number}" for number in range(40)]
    assert await call_all(make_joiner(model, 3), texts) == texts
    assert model.most_running == 3


async def test_an_invalid_text_fails_alone() -> None:
    model = Model(lambda text: ProviderFault.INVALID_REQUEST if text == "bad" else None)
    answers = await call_all(make_joiner(model), ["a", "b", "bad", "c"])
    assert [answers[0], answers[1], answers[3]] == ["a", "b", "c"]
    assert isinstance(answers[2], ProviderError)


async def test_other_errors_are_those_of_all() -> None:
    model = Model(lambda text: ProviderFault.SERVER if text == "bad" else None)
    answers = await call_all(make_joiner(model), ["a", "b", "bad", "c"])
    assert all(isinstance(answer, ProviderError) for answer in answers)
    assert len(model.requests) == 1


async def test_a_cancelled_text_does_not_disturb_the_others() -> None:
    model = Model()
    model.may_answer.clear()
    joiner = make_joiner(model)
    first, second = (asyncio.create_task(joiner.call(text)) for text in ("a", "b"))
    await model.received.wait()
    first.cancel()
    model.may_answer.set()
    answer = await second
    assert answer.result[answer.place].categories == ("b",)


async def test_closing_cancels_the_requests() -> None:
    model = Model()
    model.may_answer.clear()
    joiner = make_joiner(model)
    waiting = asyncio.create_task(joiner.call("a"))
    await model.received.wait()
    await joiner.close()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(60):
            await waiting


@pytest.mark.parametrize("sizes", [[1, 2, 3], [0, 0], [7], [1] * 50])
def test_the_usage_of_a_request_is_divided_without_a_rest(sizes: list[int]) -> None:
    parts = divide_usage(Usage(input_tokens=17), sizes)
    counts = [0 if part is None else part.input_tokens or 0 for part in parts]
    assert len(parts) == len(sizes)
    if sum(sizes):
        assert sum(counts) == 17


def test_output_is_known_to_be_missing() -> None:
    (part,) = divide_usage(Usage(input_tokens=17), [3])
    assert part == Usage(input_tokens=17, output_tokens=0)
    whole = Usage(input_tokens=17, output_tokens=5)
    first, second = divide_usage(whole, [1, 1])
    assert first is not None
    assert second is not None
    assert first + second == whole


def test_unknown_usage_stays_unknown() -> None:
    assert divide_usage(None, [1, 2]) == [None, None]
