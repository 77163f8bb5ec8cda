"""Whatever a function does, there is one bounded outcome, and nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import ConverseError, RequestError
from vibe_llms.invocables import (
    InvocationContext,
    call_execution,
    invocable,
    perform,
    produce_invoker,
)
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.outcomes import Outcome, limit_outcome, produce_outcome
from vibe_llms.messages.contents import ImageContent, TextualContent

SCHEMA: dict[str, Any] = {"type": "object"}


def make(function: Callable[..., Any], **options: Any) -> Invoker:
    """Makes an invoker of a function that takes arguments and context."""
    options = {"name": "tool", "description": "Does it.", "schema": SCHEMA, **options}
    return Invoker(function=function, **options)


async def run(function: Callable[..., Any], **options: Any) -> Outcome:
    """Executes a function once."""
    return await perform(make(function, **options), {}, InvocationContext())


def wait_until(holds: Callable[[], bool]) -> None:
    """Waits for what another thread is about to do; not for ever."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.01)


def count_threads() -> int:
    """Counts the threads that execute invocables, or wait to."""
    return sum(thread.name == "vibe-llms-invocable" for thread in threading.enumerate())


@pytest.fixture(autouse=True)
def leftovers() -> Iterator[None]:
    """After every test, whatever its outcome, no thread of ours is left."""
    yield
    wait_until(lambda: count_threads() == 0)


@pytest.fixture(autouse=True)
async def tasks() -> Any:
    """After every test, whatever its outcome, no task is left but the test's own."""
    before = asyncio.all_tasks()
    yield
    for _ in range(6_000):
        if asyncio.all_tasks() <= before | {asyncio.current_task()}:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(asyncio.all_tasks())


async def finish(arguments: Any, context: InvocationContext) -> str:
    """Returns at once."""
    return "done"


async def raise_error(arguments: Any, context: InvocationContext) -> str:
    """Raises."""
    raise KeyError("place")


async def leave(arguments: Any, context: InvocationContext) -> str:
    """Ends the process, as it thinks."""
    raise SystemExit(3)


async def interrupt(arguments: Any, context: InvocationContext) -> str:
    """Is interrupted."""
    raise KeyboardInterrupt


async def cancel_itself(arguments: Any, context: InvocationContext) -> str:
    """Meets a cancellation that is none of ours."""
    raise asyncio.CancelledError


async def hang(arguments: Any, context: InvocationContext) -> str:
    """Never ends."""
    await asyncio.Event().wait()
    return "never"


def wait_for_cancellation(arguments: Any, context: InvocationContext) -> str:
    """Ends when nobody waits any more."""
    wait_until(lambda: context.cancelled)
    return "late"


def as_plain(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """Makes a plain function that does the same."""

    def plain(arguments: Any, context: InvocationContext) -> Any:
        coroutine: Any = function(arguments, context)
        try:
            coroutine.send(None)
        except StopIteration as ended:
            return ended.value
        raise AssertionError("it waits")

    return plain


@pytest.mark.slow
@pytest.mark.parametrize("convert", [lambda function: function, as_plain])
@pytest.mark.parametrize(
    ("function", "is_error", "words"),
    [
        (finish, False, "done"),
        (raise_error, True, "tool failed: KeyError: 'place'"),
        (leave, True, "tool failed: SystemExit: 3"),
    ],
)
async def test_every_end_is_an_outcome(
    function: Any, is_error: bool, words: str, convert: Callable[..., Any]
) -> None:
    """Whether it returns, raises or gives up, asynchronous or plain."""
    outcome = await run(convert(function))

    assert (outcome.is_error, outcome.text) == (is_error, words)


async def test_an_interrupt_in_the_main_thread_reaches_the_caller() -> None:
    """It ends no event loop on its way, and the caller is not told of a cancellation."""
    with pytest.raises(KeyboardInterrupt):
        await run(interrupt)
    # Signals never arrive in the threads of plain functions, nor in the portal's.
    told = [await run(as_plain(interrupt)), await asyncio.to_thread(asyncio.run, run(interrupt))]
    assert [each.text for each in told] == ["tool failed: KeyboardInterrupt"] * 2


async def test_a_cancellation_from_within_is_an_outcome() -> None:
    """Only a cancellation of the caller cancels the caller."""
    outcome = await run(cancel_itself)
    assert outcome.is_error
    assert outcome.text == "tool cancelled itself."


@pytest.mark.parametrize("function", [hang, wait_for_cancellation])
async def test_the_time_limit_holds(function: Any) -> None:
    """A function that takes too long is stopped, and the model is told what that means."""
    outcome = await run(function, time_limit_seconds=0.05)

    assert outcome.is_error
    assert "0.05 seconds" in outcome.text
    assert "may have taken effect" in outcome.text


async def test_a_pure_function_cannot_have_taken_effect() -> None:
    """The model is not made to worry about what cannot be."""
    outcome = await run(hang, time_limit_seconds=0.05, effect=Effect.PURE)
    assert "effect" not in outcome.text


@pytest.mark.parametrize("function", [hang, wait_for_cancellation])
async def test_cancelling_ends_the_function(function: Any) -> None:
    """Whoever cancels the call does not wait for it, and the function hears of it."""
    context = InvocationContext()
    task = asyncio.create_task(perform(make(function, time_limit_seconds=None), {}, context))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert context.cancelled


async def test_cancelling_before_the_first_step_frees_the_place() -> None:
    """A call that is cancelled before it begins occupies nothing."""
    invoker = make(finish, concurrency=1)
    for _ in range(3):
        task = asyncio.create_task(perform(invoker, {}, InvocationContext()))
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    outcome = await perform(invoker, {}, InvocationContext())
    assert outcome.text == "done"


@pytest.mark.parametrize("is_plain", [False, True])
async def test_no_more_run_at_once_than_allowed(is_plain: bool) -> None:
    """The concurrency of an invoker holds, for copies of it under other names, too."""
    running, most = 0, 0

    def enter() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)

    def exit_() -> None:
        nonlocal running
        running -= 1

    async def work(arguments: Any, context: InvocationContext) -> None:
        enter()
        await asyncio.sleep(0.01)
        exit_()

    def work_plainly(arguments: Any, context: InvocationContext) -> None:
        enter()
        time.sleep(0.01)
        exit_()

    import attrs

    invoker = make(work_plainly if is_plain else work, concurrency=2)
    copy = attrs.evolve(invoker, name="other__tool")
    async with asyncio.TaskGroup() as group:
        for each in (invoker, copy) * 5:
            group.create_task(perform(each, {}, InvocationContext()))

    assert most == 2
    assert running == 0


async def test_a_hung_thread_keeps_its_place_and_others_are_told() -> None:
    """Who would wait for a thread that may never end learns of it at once; later all is well."""
    release = threading.Event()

    def block(arguments: Any, context: InvocationContext) -> str:
        release.wait(60)
        return "freed"

    invoker = make(block, concurrency=1, time_limit_seconds=0.1)
    first = asyncio.create_task(perform(invoker, {}, InvocationContext()))
    await asyncio.sleep(0.02)
    waiting = asyncio.create_task(perform(invoker, {}, InvocationContext()))
    outcome = await first
    assert "cannot be stopped" in outcome.text
    assert "earlier calls exceeded their time" in (await waiting).text
    later = await perform(invoker, {}, InvocationContext())
    assert "earlier calls exceeded their time" in later.text

    release.set()
    async with asyncio.timeout(60):
        while (await perform(invoker, {}, InvocationContext())).text != "freed":  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # the thread is about to end


async def test_a_function_that_ignores_its_cancellation_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even such a function holds up the run; its place is free when it ends after all."""
    monkeypatch.setattr(call_execution, "GRACE_SECONDS", 0.02)
    release = asyncio.Event()

    async def ignore(arguments: Any, context: InvocationContext) -> str:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        return "after all"

    invoker = make(ignore, concurrency=1, time_limit_seconds=0.02)
    outcome = await perform(invoker, {}, InvocationContext())
    assert "cannot be stopped" in outcome.text
    assert "earlier calls" in (await perform(invoker, {}, InvocationContext())).text
    release.set()
    await asyncio.sleep(0.01)
    assert (await perform(invoker, {}, InvocationContext())).text == "after all"


async def test_an_end_within_the_grace_is_not_lost() -> None:
    """A function that finishes when it is asked to stop has a result, and it counts."""

    async def hurry(arguments: Any, context: InvocationContext) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(5)
        return "half of it"

    outcome = await run(hurry, time_limit_seconds=0.02)
    assert outcome == Outcome(contents="half of it")


async def test_plain_functions_that_return_something_to_await_are_awaited() -> None:
    """A decorator may hide that a function is asynchronous."""
    outcome = await run(lambda arguments, context: finish(arguments, context))
    assert outcome.text == "done"


async def test_faulty_arguments_are_not_executed() -> None:
    """The function never sees what does not fit; the model reads why."""
    calls = []
    schema = {"type": "object", "required": ["place"]}
    outcome = await run(lambda arguments, context: calls.append(arguments), schema=schema)

    assert outcome.is_error
    assert "arguments.place: is required" in outcome.text
    assert calls == []


async def test_a_broken_schema_does_not_end_the_run() -> None:
    """What a server offers may be broken: the call fails, and nothing else."""
    outcome = await run(finish, schema={"type": "nonsense"})
    assert outcome.is_error
    assert "invalid JSON Schema" in outcome.text


@pytest.mark.parametrize("is_plain", [False, True])
async def test_progress_arrives_in_the_loop(is_plain: bool) -> None:
    """A listener is called in the event loop's thread, wherever the function runs."""
    heard: list[tuple[str, int]] = []
    context = InvocationContext(
        listener=lambda text: heard.append((text, threading.get_ident())), idempotency_key="k"
    )

    async def tell(arguments: Any, context: InvocationContext) -> str:
        context.progress("half")
        return context.idempotency_key

    invoker = make(as_plain(tell) if is_plain else tell)
    assert (await perform(invoker, {}, context)).text == "k"
    await asyncio.sleep(0.01)
    assert heard == [("half", threading.get_ident())]


async def test_errors_of_ours_speak_for_themselves() -> None:
    """An error that has a remedy is told as it is."""

    async def refuse(arguments: Any, context: InvocationContext) -> None:
        raise ConverseError(detail="It is closed.", remedy="Come back later.")

    assert (await run(refuse)).text == "tool failed: It is closed. Come back later."


async def test_an_error_that_cannot_be_printed_is_an_outcome() -> None:
    """Nothing a function raises gets past."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    async def refuse(arguments: Any, context: InvocationContext) -> None:
        raise Mute

    assert (await run(refuse)).text == "tool failed: Mute"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("words", "words"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Path("/tmp/x"), '"/tmp/x"'),
        (None, ""),
        (3, "3"),
    ],
)
def test_any_plain_value_can_be_returned(value: Any, text: str) -> None:
    """Text stays text, and what else is plain is written as JSON."""
    assert produce_outcome(value).text == text


def test_contents_can_be_returned() -> None:
    """Pictures and texts go to the model as they are."""
    image = ImageContent(mime_type="image/png", data=b"png")
    assert produce_outcome(image).contents == (image,)
    assert produce_outcome(["see", image]).contents == (TextualContent("see"), image)


async def test_what_cannot_be_said_is_an_outcome() -> None:
    """A value of no use to a model fails the call, in words for the developer."""
    outcome = await run(lambda arguments, context: object())
    assert outcome.is_error
    assert "type object is not text, content or plain data" in outcome.text


CONTENTS = st.lists(
    st.text(max_size=40)
    | st.binary(max_size=40).map(lambda data: ImageContent(mime_type="image/png", data=data)),
    max_size=6,
)


@given(CONTENTS, st.integers(1, 200), st.integers(1, 100))
def test_the_output_limits_always_hold(
    contents: list[Any], characters: int, size_bytes: int
) -> None:
    """However a result is made up, neither its texts nor its media exceed the limits."""
    outcome = Outcome(contents=contents)
    limited = limit_outcome(outcome, characters, size_bytes)
    media = [item for item in limited.contents if isinstance(item, ImageContent)]

    assert len(limited.text) <= characters
    assert sum(len(item.data or b"") for item in media) <= size_bytes
    if limited is not outcome:
        assert limited != outcome
    elif len(outcome.text) <= characters:
        assert limited == outcome


def test_a_cut_says_how_much_is_missing() -> None:
    """The model knows that there is more, and how much."""
    limited = limit_outcome(Outcome(contents="x" * 5_000), 100, 1)
    assert len(limited.text) == 100
    kept = limited.text.count("x", 0, limited.text.index("\n"))
    assert f"cut: {5_000 - kept} of 5000 characters; the limit is 100" in limited.text


async def test_a_flood_is_cut() -> None:
    """A function that returns far too much harms nobody."""
    outcome = await run(lambda a, c: ["x" * 1_000] * 5_000, output_limit_characters=2_000)
    assert len(outcome.text) == 2_000


def test_the_decorator_leaves_a_function_a_function() -> None:
    """It is called as before; what was said about it is found when it becomes an invoker."""

    @invocable(effect="pure", time_limit_seconds=5, name="weather_now")
    def weather(place: str) -> str:
        """Tells the weather."""
        return f"rain in {place}"

    invoker = produce_invoker(weather, time_limit_seconds=7)

    assert weather("Rome") == "rain in Rome"
    assert (invoker.name, invoker.effect) == ("weather_now", Effect.PURE)
    assert invoker.time_limit_seconds == 7
    assert invoker.describe().description == "Tells the weather."


def test_the_decorator_refuses_where_the_mistake_is() -> None:
    """An undescribed function fails when it is defined, not when a model wants it."""
    with pytest.raises(RequestError, match="no description"):

        @invocable
        def weather(place: str) -> str:
            return place


@pytest.mark.parametrize("limit", ["time_limit_seconds", "output_limit_characters", "concurrency"])
def test_limits_are_positive(limit: str) -> None:
    """A limit of nothing would be an invocable that never works."""
    with pytest.raises(RequestError, match=limit):
        make(finish, **{limit: 0})
