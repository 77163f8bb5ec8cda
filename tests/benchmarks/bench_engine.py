"""Cost of a run's turn beside asking the model: ours, pydantic-ai's agent and langgraph's.

A turn is one generation that invokes a tool which does nothing, and its result. All have models
that answer at once and cost next to nothing; what a model costs by itself, called directly, is
taken off. CPU time of this process, the best of several runs.

The others are no dependency. This makes an environment for them, outside of the project, and runs
it there::

    python -m venv /tmp/agents
    /tmp/agents/bin/pip install -e . pydantic-ai-slim langgraph langchain
    /tmp/agents/bin/python tests/benchmarks/run.py engine

Those that are not installed are left out.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFinishedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.instruments.engines import Engine
from vibe_llms.invocables import invocable
from vibe_llms.messages.canisters import StopReason, Usage, UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.providers.conversing import ModelBase
from vibe_llms.providers.interfaces import ModelDescriptor, Translation
from vibe_llms.telemetry.odometer import Odometer

TURNS = 100
MANY_TURNS = 1000
CALLS = 100
REPETITIONS = 12
LIMIT_MICROSECONDS = 150
LIMIT_RATIO = 10
LIMIT_SHARE = 0.1
_BOUNDLESS = 10**9
LIMITS = Limits(
    run_steps=_BOUNDLESS, run_invocations=_BOUNDLESS, run_tokens=_BOUNDLESS, run_cents=_BOUNDLESS
)
_ATTRIBUTES = Catalogue().access_integrator("none").integrate("m")
_DESCRIPTOR = ModelDescriptor(provider="none", name="m", attributes=_ATTRIBUTES)


class _Source:
    """Return the prepared answer in one read."""

    is_spent = True

    def __init__(self, events: Sequence[StreamEvent]) -> None:
        self._events: list[Sequence[StreamEvent]] = [events]

    async def receive(self) -> Sequence[StreamEvent] | None:
        return self._events.pop() if self._events else None

    async def close(self) -> None:
        return None


class _Model(ModelBase[None]):
    """Invokes the tool so many times, and then answers."""

    protocol = "prepared"

    def __init__(self, turns: int) -> None:
        super().__init__(_DESCRIPTOR, None)  # type: ignore[arg-type]  # no tokens are counted here
        self.left = turns

    def nativize(self, request: Request, *, streaming: bool) -> Translation[None]:
        return Translation(None, ())

    async def send(self, native: None, request: Request, *, streaming: bool) -> _Source:
        self.left -= 1
        start = (
            ContentStartedEvent(
                index=0, kind="invocation", invocation_id=f"call-{self.left}", name="nothing"
            ),
            ContentDeltaEvent(0, '{"x": 1}', "arguments"),
        )
        if self.left < 0:
            start = (ContentStartedEvent(index=0, kind="text"), ContentDeltaEvent(0, "Done."))
        reason = StopReason.ANSWERED if self.left < 0 else StopReason.INVOCATION
        usage = UsageEvent(usage=Usage(input_tokens=10, output_tokens=5))
        end = (ContentFinishedEvent(index=0), usage, ResponseFinishedEvent(stop_reason=reason))
        return _Source([*start, *end])


@invocable(effect="pure")
async def nothing(x: int) -> str:
    """Do nothing.

    Args:
        x: Nothing.
    """
    return "ok"


class Ours:
    """The engine, with nothing but the model, the tool, and a store in memory."""

    name, package = "vibe-llms", "vibe_llms"
    stream, is_followed = False, False

    async def run(self, turns: int) -> int:
        listener = Odometer() if self.is_followed else None
        model = _Model(turns)
        engine = Engine(
            model,
            [nothing],
            limits=LIMITS,
            store=MemoryStore(),
            stream=self.stream,
            listener=listener,
        )
        outcome = await engine.answer(Conversation(canisters=[UserCanister("Go")]))
        return len(outcome.canisters)

    async def call(self, model: _Model, request: Request) -> None:
        await model.converse(request, stream=self.stream)

    def prepare(self) -> Callable[[], Awaitable[None]]:
        model, request = _Model(_BOUNDLESS), Request(canisters=[UserCanister("Go")])
        return lambda: self.call(model, request)


class OursStreamed(Ours):
    """The same with answers that come piece by piece."""

    name = "vibe-llms, streamed"
    stream = True


class OursFollowed(OursStreamed):
    """The same with an odometer that listens."""

    name = "vibe-llms, streamed, with an odometer"
    is_followed = True


class PydanticAI:
    """The agent of pydantic-ai."""

    name, package = "pydantic-ai", "pydantic_ai"

    def _produce_model(self, turns: int) -> Any:
        from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import AgentInfo, FunctionModel

        left = [turns]

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            left[0] -= 1
            if left[0] < 0:
                return ModelResponse(parts=[TextPart("Done.")])
            part = ToolCallPart("nothing", {"x": 1}, tool_call_id=f"call-{left[0]}")
            return ModelResponse(parts=[part])

        return FunctionModel(answer)

    async def run(self, turns: int) -> int:
        from pydantic_ai import Agent, UsageLimits

        agent = Agent(self._produce_model(turns))

        @agent.tool_plain
        async def nothing(x: int) -> str:
            """Do nothing."""
            return "ok"

        limits = UsageLimits(request_limit=None)
        result = await agent.run("Go", usage_limits=limits)
        return len(result.all_messages())

    def prepare(self) -> Callable[[], Awaitable[Any]]:
        from pydantic_ai.direct import model_request
        from pydantic_ai.messages import ModelRequest

        model, request = self._produce_model(_BOUNDLESS), ModelRequest.user_text_prompt("Go")
        return lambda: model_request(model, [request])


class LangGraph:
    """The prebuilt agent on langgraph."""

    name, package = "langgraph", "langgraph"

    def _produce_model(self, turns: int) -> Any:
        from langchain_core.language_models.chat_models import BaseChatModel
        from langchain_core.messages import AIMessage
        from langchain_core.outputs import ChatGeneration, ChatResult

        class Prepared(BaseChatModel):
            left: int = turns

            @property
            def _llm_type(self) -> str:
                return "prepared"

            def bind_tools(self, tools: Any, **options: Any) -> Any:
                return self

            def _generate(self, messages: Any, *arguments: Any, **options: Any) -> ChatResult:
                self.left -= 1
                call = {"name": "nothing", "args": {"x": 1}, "id": f"call-{self.left}"}
                calls = [] if self.left < 0 else [call]
                message = AIMessage(content="" if calls else "Done.", tool_calls=calls)
                return ChatResult(generations=[ChatGeneration(message=message)])

            async def _agenerate(
                self, messages: Any, *arguments: Any, **options: Any
            ) -> ChatResult:
                return self._generate(messages)

        return Prepared()

    async def run(self, turns: int) -> int:
        from langchain_core.tools import tool

        @tool
        async def nothing(x: int) -> str:
            """Do nothing."""
            return "ok"

        agent = _find_agent_maker()(self._produce_model(turns), [nothing])
        state = {"messages": [{"role": "user", "content": "Go"}]}
        result = await agent.ainvoke(state, {"recursion_limit": _BOUNDLESS})
        return len(result["messages"])

    def prepare(self) -> Callable[[], Awaitable[Any]]:
        model = self._produce_model(_BOUNDLESS)
        return lambda: model.ainvoke([{"role": "user", "content": "Go"}])


def _find_agent_maker() -> Callable[..., Any]:
    try:
        from langchain.agents import create_agent  # where the prebuilt one lives now
    except ImportError:
        from langgraph.prebuilt import create_react_agent as create_agent
    maker: Callable[..., Any] = create_agent
    return maker


async def _measure_run(subject: Any, turns: int) -> float:
    """Returns the microseconds of CPU that a turn costs, the model's own included."""
    gc.collect()
    begun = time.process_time()
    said = await subject.run(turns)
    seconds = time.process_time() - begun
    if said < 2 * turns + 1:
        raise RuntimeError(f"{subject.name} gave up after {said} messages.")
    return seconds / turns * 1e6


async def _measure_calls(subject: Any) -> float:
    """Returns the microseconds of CPU of one direct call."""
    call = subject.prepare()
    await call()
    gc.collect()
    begun = time.process_time()
    for _ in range(CALLS):
        await call()
    return (time.process_time() - begun) / CALLS * 1e6


async def _measure(subject: Any, repetitions: int) -> tuple[float, float]:
    """Prints a row; returns the engine's own microseconds a turn, and the ratio of long runs."""
    await subject.run(2)
    direct = min([await _measure_calls(subject) for _ in range(repetitions)])
    turn = min([await _measure_run(subject, TURNS) for _ in range(repetitions)])
    long = min([await _measure_run(subject, MANY_TURNS) for _ in range(max(1, repetitions // 3))])
    ratio = long * MANY_TURNS / (turn * TURNS)
    print(
        f"{subject.name}: {turn - direct:.0f} us a turn over {direct:.0f} us of a direct call; "
        f"{MANY_TURNS} turns cost {ratio:.1f} times {TURNS} turns",
        flush=True,
    )
    return turn - direct, ratio


async def _main() -> None:
    own, ratio = await _measure(Ours(), REPETITIONS)
    for subject in (OursStreamed(), OursFollowed()):
        await _measure(subject, REPETITIONS)
    shares = []
    for peer in (PydanticAI(), LangGraph()):
        if importlib.util.find_spec(peer.package) is None:
            print(f"{peer.name}: not installed", flush=True)
            continue
        theirs, _ = await _measure(peer, 2)
        shares.append(own / theirs)
    print(f"asked: at most {LIMIT_MICROSECONDS} us: {'yes' if own <= LIMIT_MICROSECONDS else 'NO'}")
    print(f"asked: at most {LIMIT_RATIO} times: {'yes' if ratio <= LIMIT_RATIO else 'NO'}")
    if shares:
        worst = max(shares)
        verdict = "yes" if worst <= LIMIT_SHARE else "NO"
        print(f"asked: at most {LIMIT_SHARE:.0%} of theirs: {worst:.1%}, {verdict}")


def main() -> None:
    """Prints the table."""
    logging.disable(logging.WARNING)
    asyncio.run(_main())


if __name__ == "__main__":
    main()
