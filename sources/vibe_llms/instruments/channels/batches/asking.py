"""The work of a batch whose inputs are put to a model, or to an engine: a model with tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import attrs

from vibe_llms.engine.states import Reason, State
from vibe_llms.exceptions import ConverseError, LimitError, RequestError, Stage
from vibe_llms.instruments.channels.batches.items import BatchItem, Outcome
from vibe_llms.instruments.channels.composing import Composing, compose_aside
from vibe_llms.instruments.engines import Engine, RunOutcome
from vibe_llms.instruments.inputs import gather_canisters
from vibe_llms.instruments.models import Model
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.messages.canisters import AnyCanister, Origin, Usage, UserCanister
from vibe_llms.messages.requests import Request, Response, replace_canisters
from vibe_llms.messages.views import text_of, usage_of

_PLACEHOLDER = "?"
"""What is asked in the request that all others are made from."""

_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.05, 1.0

T = TypeVar("T")

Ask: TypeAlias = Callable[[Any], Awaitable[Outcome[Any]]]


@attrs.frozen(kw_only=True)
class Wording:
    """How an input becomes what is said: by a prompt, or as it stands.

    Attributes:
        prompt: Makes canisters of inputs that are tables of variables.
    """

    prompt: Composing | None = None

    async def compose(self, value: Any) -> tuple[AnyCanister, ...]:
        """Returns what is said.

        Raises:
            RequestError: The input and the prompt do not go together.
        """
        if self.prompt is None:
            if not isinstance(value, Mapping):
                return gather_canisters(value)
            detail, remedy = "a table of variables, and no prompt takes them", "Give a prompt"
        elif isinstance(value, Mapping):
            return await compose_aside(self.prompt, value)
        else:
            detail = "no table of variables, as the prompt wants"
            remedy = f"Give values of {', '.join(sorted(self.prompt.variables)) or 'nothing'}"
        raise RequestError(path="inputs", detail=f"An input is {detail}.", remedy=f"{remedy}.")

    async def identify(self, value: Any) -> Any:
        """Returns what tells an input from others; with a prompt, what becomes of it, too."""
        if self.prompt is None:
            return value
        try:
            said = await self.compose(value)
        except ConverseError:
            return value
        return {"variables": value, "said": [[each.role, text_of(each)] for each in said]}


class Asking:
    """Puts each input to a model, with the same options.

    Args:
        model: Is asked; what it shares with others is looked up once for a run.
        options: Of each request.
        wording: How an input becomes what is said.
        parser: What answers become; without it, text.
        is_owner: Whether the model ends with the batch.
    """

    def __init__(
        self,
        model: Model,
        options: Mapping[str, Any],
        wording: Wording,
        parser: Parser[Any] | None,
        *,
        is_owner: bool,
    ) -> None:
        self.wording = wording
        self._model = model
        self._options = options
        self._parser = parser
        self._is_owner = is_owner

    async def prepare(self) -> Ask:
        """Looks up what all requests share, and returns what asks one.

        Raises:
            ConverseError: The model cannot be used, for any input.
        """
        pattern = self._produce_pattern()
        model, parser = self._model, self._parser
        converser = await model.access()
        if parser is None:
            converser.check(pattern)
        else:
            converser.check(parser.compose(pattern, converser.descriptor.attributes)[0])
        is_followed = await model.join_reactors(None) is not None
        preface = pattern.canisters[:-1]

        async def ask(value: Any) -> Outcome[Any]:
            request = await self._fill(pattern, preface, value)
            reactors = await model.join_reactors(None) if is_followed else None
            response = await _take_turns(
                lambda: converser.converse(request, reactors, stream=False)
            )
            return produce_outcome(response)

        async def parse(value: Any) -> Outcome[Any]:
            assert parser is not None
            request = await self._fill(pattern, preface, value)
            parsed = await _take_turns(lambda: model.parse_with_response(request, parser))
            outcome = produce_outcome(parsed.response)
            return attrs.evolve(
                outcome,
                value=parsed.value,
                text=parser.find(parsed.response.canisters),
                origin=_account(outcome.origin, parsed.usage),
                losses=parsed.losses,
            )

        return ask if parser is None else parse

    def describe(self) -> Any:
        """Says what is the same for all inputs."""
        parser = self._parser
        told = {"request": self._produce_pattern().digest()}
        return told if parser is None else {**told, "parser": [parser.name, parser.schema]}

    async def restore(self, item: BatchItem[Any]) -> BatchItem[Any]:
        """Returns an item of the journal with its value."""
        if self._parser is None or item.text is None:
            return item
        return attrs.evolve(item, value=await self._parser.read_meanwhile(item.text))

    async def close(self) -> None:
        """Frees the model, where it is this batch's own."""
        if self._is_owner:
            await self._model.close()

    def _produce_pattern(self) -> Request:
        return self._model.request(_PLACEHOLDER, **self._options)

    async def _fill(self, pattern: Request, preface: Sequence[AnyCanister], value: Any) -> Request:
        """Makes the request of one input."""
        if value.__class__ is str and self.wording.prompt is None:
            return replace_canisters(pattern, (*preface, UserCanister(value)))
        if isinstance(value, Request):
            return await self._model.hydrate(value)
        canisters = (*preface, *await self.wording.compose(value))
        return await self._model.hydrate(replace_canisters(pattern, canisters))


class Acting:
    """Lets an engine answer each input: one run each, with the tools of the engine."""

    def __init__(self, engine: Engine, wording: Wording) -> None:
        self.wording = wording
        self._engine = engine
        self._pattern: Request | None = None

    async def prepare(self) -> Ask:
        """Looks up what all runs share, and returns what performs one.

        Raises:
            ConverseError: The model, or a tool, cannot be used for any input.
        """
        engine = self._engine
        asking = await engine.produce_asking()
        async with engine.access_registry() as registry:
            self._pattern = Request(
                canisters=[UserCanister(_PLACEHOLDER)],
                model=asking.address,
                controls=asking.controls,
                invocables=registry.describe(),
                invocation_choice=asking.invocation_choice,
                schema=asking.schema,
                strict=asking.strict,
                lenient=asking.lenient,
                native=asking.native,
                window=asking.window,
            )

        async def act(value: Any) -> Outcome[Any]:
            outcome = await engine.perform(await self.wording.compose(value))
            _ensure_answered(outcome)
            usage = _add_usage(usage_of(outcome.canisters), outcome.summaries)
            origin = next(filter(None, map(_origin_of, reversed(outcome.canisters))), None)
            text = outcome.text
            return Outcome(
                value=text, text=text, origin=_account(origin, usage), losses=outcome.losses
            )

        return act

    def describe(self) -> Any:
        """Says what is the same for all inputs."""
        assert self._pattern is not None
        return {"engine": self._pattern.digest()}

    async def restore(self, item: BatchItem[Any]) -> BatchItem[Any]:
        """Returns an item of the journal with its value."""
        return item

    async def close(self) -> None:
        """Leaves the engine to whoever made it."""


async def _take_turns(ask: Callable[[], Awaitable[T]]) -> T:
    """Asks as soon as there is room in the queue of a model that answers one at a time.

    Where that is full, nothing was asked; it is no failure of an input that others are before it.
    """
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await ask()
        except LimitError as error:
            if error.limit != "waiting_requests":
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE_SECONDS)


def produce_outcome(response: Response) -> Outcome[Any]:
    """Returns what came of an input as the text of its answer."""
    text, origin = response.text, response.metadata.origin
    return Outcome(
        value=text,
        text=text,
        origin=_account(origin, _add_usage(origin.usage, response.metadata.summaries)),
        losses=response.losses,
        response=response,
    )


def _add_usage(usage: Usage | None, summaries: Sequence[Origin]) -> Usage | None:
    """Adds what summaries of the oldest turns took, for which the same model was asked first."""
    for summary in summaries:
        if summary.usage is not None:
            usage = summary.usage if usage is None else usage + summary.usage
    return usage


def _account(origin: Origin | None, usage: Any) -> Origin | None:
    """Puts down what all answers to an input used, where there were several."""
    return None if origin is None else attrs.evolve(origin, usage=usage)


def _origin_of(canister: AnyCanister) -> Origin | None:
    return getattr(canister, "origin", None)


def _ensure_answered(outcome: RunOutcome) -> None:
    if outcome.error is not None:
        raise outcome.error
    if outcome.reason is Reason.ANSWERED:
        return
    if outcome.state is State.AWAIT:
        what, remedy = "waits for an approval", "Give the engine an approver."
    else:
        what = f"ended without an answer ({outcome.reason})"
        remedy = f"Raise limits.{outcome.limit}." if outcome.limit else ""
    raise ConverseError(
        detail=f"The run {what}. {outcome.detail}".rstrip(), remedy=remedy, stage=Stage.EXECUTE
    )
