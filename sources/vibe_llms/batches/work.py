"""Models and engines as the work of a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias, TypeVar

import attrs

from vibe_llms.batches.batch_specs import write_pattern
from vibe_llms.batches.item_lines import digest
from vibe_llms.batches.items import BatchItem, count_reached
from vibe_llms.engine.limits import export_limits
from vibe_llms.engine.states import Reason, State
from vibe_llms.exceptions import ConverseError, LimitError, RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.instruments.answering import Answer
from vibe_llms.instruments.channels.composing import Composing, compose_without_blocking
from vibe_llms.instruments.engines import Engine
from vibe_llms.instruments.estimates import AnyEstimator, Estimator, RunEstimator, write_input
from vibe_llms.instruments.inputs import PLACEHOLDER, gather_canisters, produce_user_canister
from vibe_llms.instruments.models import Model
from vibe_llms.instruments.outcomes import RunOutcome
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.messages.canisters import AnyCanister, Origin
from vibe_llms.messages.endings import produce_error
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.requests import Request, Response, replace_canisters
from vibe_llms.messages.trusting import trusted
from vibe_llms.messages.views import add_usages, text_of
from vibe_llms.providers.interfaces import ConverserModel

_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.05, 1.0

_make_item = trusted(BatchItem)

T = TypeVar("T")

Ask: TypeAlias = Callable[[Any], Awaitable[BatchItem[Any]]]
"""Returns the result of one input; the run adds its place and its duration."""


@frozen(kw_only=True)
class Wording:
    """Composition of an input: rendered by a prompt, or unchanged.

    Attributes:
        prompt: Renders inputs that are tables of variables as canisters.
    """

    prompt: Composing | None = None

    async def compose(self, value: Any) -> tuple[AnyCanister, ...]:
        """Return the composed input.

        Raises:
            RequestError: The input and the prompt do not fit together.
        """
        if self.prompt is None:
            if not isinstance(value, Mapping):
                return gather_canisters(value)
            detail, remedy = (
                "a table of variables without a prompt to render them",
                "Give a prompt",
            )
        elif isinstance(value, Mapping):
            return await compose_without_blocking(self.prompt, value)
        else:
            detail = "not a table of variables, which the prompt needs"
            remedy = f"Pass values of {', '.join(sorted(self.prompt.variables)) or 'nothing'}"
        raise RequestError(path="inputs", detail=f"An input is {detail}.", remedy=f"{remedy}.")

    async def identify(self, value: Any) -> Any:
        """Return the identity of an input; with a prompt, include the rendered text."""
        if self.prompt is None:
            return value
        try:
            said = await self.compose(value)
        except ConverseError:
            # An error here would end the batch; when the input is asked, the error fails only this
            # input.
            return value
        return {"variables": value, "said": [[each.role, text_of(each)] for each in said]}


class ModelWork:
    """Model or engine that is asked about each input.

    Args:
        answering: The model or engine; data that its answers share is looked up once per run.
        options: Options of each request to a model.
        wording: Composes inputs.
        parser: Parses the answers of a model; without it, they are text.
        is_owner: Whether the batch closes the model.
    """

    def __init__(
        self,
        answering: Model | Engine,
        options: Mapping[str, Any],
        wording: Wording,
        parser: Parser[Any] | None = None,
        *,
        is_owner: bool = False,
    ) -> None:
        self.wording = wording
        self._answering = answering
        self._options = options
        self._parser = parser
        self._is_owner = is_owner
        self._pattern: Request | None = None

    @property
    def parser(self) -> Parser[Any] | None:
        """Parser of the answers; ``None`` for text."""
        return self._parser

    @property
    def is_engine(self) -> bool:
        """True if an engine is asked."""
        return isinstance(self._answering, Engine)

    async def prepare(self) -> Ask:
        """Look up what all requests share; return the function that asks one.

        Raises:
            ConverseError: The model or a tool cannot be used for any input.
        """
        if isinstance(self._answering, Engine):
            self._pattern = await self._answering.produce_pattern()
            return self._act
        self._pattern = pattern = self._answering.request(PLACEHOLDER, **self._options)
        model = await self._answering.access()
        if self._parser is not None:
            pattern, _ = self._parser.compose(pattern, model.descriptor.attributes)
        # Refuse work that would fail for every input before a journal is created.
        model.check(pattern)
        return self._ask if self._parser is None else self._parse

    async def _ask(self, value: Any) -> BatchItem[Any]:
        request = await self._fill(value)
        model: Any = self._answering
        try:
            answered = await model.answer(request, stream=False)
        except LimitError as error:
            answered = await _take_turns(error, lambda: model.answer(request, stream=False))
        return produce_outcome(answered)

    async def _parse(self, value: Any) -> BatchItem[Any]:
        assert self._parser is not None
        parser, request = self._parser, await self._fill(value)
        model: Any = self._answering
        answers: list[Response] = []  # all of them were billed, even if the last one fails
        ask = partial(
            model.parse_with_response,
            request,
            parser,
            listener=lambda each: answers.append(each.response),
        )
        try:
            try:
                parsed = await ask()
            except LimitError as error:
                parsed = await _take_turns(error, ask)
        except ConverseError as error:
            if not answers:
                raise
            sent = _count_sent(answers, count_reached(error))
            return BatchItem(error=error, origin=_account(answers), sent=sent)
        return attrs.evolve(
            produce_outcome(parsed.response),
            origin=_account(answers),
            sent=_count_sent(answers),
            value=parsed.value,
            text=parser.find(parsed.response.canisters),
            losses=tuple(map(str, parsed.losses)),
        )

    async def _act(self, value: Any) -> BatchItem[Any]:
        assert isinstance(self._answering, Engine)
        return conclude_run(await self._answering.answer(await self.wording.compose(value)))

    async def access_model(self) -> ConverserModel:
        """Return the model that is asked."""
        return await self._model.access()

    async def produce_estimator(self, cap: Decimal) -> AnyEstimator:
        """Create the estimator of the maximum cost of an input.

        Raises:
            ConfigurationError: The cost is unknown.
        """
        answering = self._answering
        if isinstance(answering, Engine):
            model = answering.model
            asked = await model.access() if isinstance(model, Model) else model
            return RunEstimator(asked.descriptor, answering.limits.run_cents, cap)
        asked = await answering.access()
        return Estimator(
            asked.descriptor,
            self.pattern,
            1 if self._parser is None else self._parser.attempts,
            tries=answering.application.configuration.limits.attempts,
        )

    @property
    def pattern(self) -> Request:
        """Request template with a placeholder for the input."""
        assert self._pattern is not None
        return self._pattern

    @property
    def _model(self) -> Model:
        assert isinstance(self._answering, Model)
        return self._answering

    async def _fill(self, value: Any) -> Request:
        """Compose the request of one input."""
        assert self._pattern is not None
        if isinstance(value, Request):
            return value
        # The last one is the placeholder for the input.
        preface = self._pattern.canisters[:-1]
        if value.__class__ is str and self.wording.prompt is None:
            return evolve_unchecked(
                self._pattern, canisters=(*preface, produce_user_canister(value))
            )
        return replace_canisters(self._pattern, (*preface, *await self.wording.compose(value)))

    async def compose(self, value: Any) -> Request:
        """Compose the request of one input, for callers that send it themselves.

        Raises:
            RequestError: The input is empty, or does not fit the parser.
        """
        request = await self._model.hydrate(await self._fill(value))
        if self._parser is None:
            return request
        model = await self._model.access()
        return self._parser.compose(request, model.descriptor.attributes)[0]

    async def conclude(self, response: Response) -> BatchItem[Any]:
        """Return the item of an answered request; the response is not kept."""
        item = attrs.evolve(produce_outcome(response), response=None)
        parser = self._parser
        if parser is None or item.error is not None:
            return item
        try:
            value = await parser.read_without_blocking(response)
        except ConverseError as error:
            return attrs.evolve(item, value=None, error=error)
        return attrs.evolve(item, value=value, text=parser.find(response.canisters))

    async def identify(self, value: Any) -> Any:
        """Return the identity of an input."""
        return value if self.wording.prompt is None else await self.wording.identify(value)

    async def say(self, value: Any) -> Any:
        """Return the composed input. Raises RequestError."""
        return await self.wording.compose(value)

    def describe(self) -> Any:
        """Describe the settings that all inputs share."""
        assert self._pattern is not None
        kind = "engine" if isinstance(self._answering, Engine) else "request"
        told = {kind: self._pattern.digest()}
        parser = self._parser
        return told if parser is None else {**told, "parser": [parser.name, parser.schema]}

    def compose_spec(self) -> dict[str, Any]:
        """Return the work's part of a specification; see :class:`.BatchSpec`."""
        told: dict[str, Any] = {
            "model": self.pattern.model,
            "request": write_pattern(self.pattern),
            "settings": digest(self.describe()),
        }
        engine, parser = self._answering, self._parser
        if isinstance(engine, Engine):
            names = tuple(each.name for each in engine.ensembles)
            limits = export_limits(engine.limits)
            return {**told, "is_engine": True, "ensembles": names, "limits": limits}
        if parser is None:
            return told
        read = {"schema": dict(parser.schema), "name": parser.name, "attempts": parser.attempts}
        return {**told, **read}

    def ensure_portable(self) -> None:
        """Refuse an engine that depends on this process. Raises TypeError."""
        if isinstance(self._answering, Engine) and (
            own := self._answering.survey_local_arguments()
        ):
            raise TypeError(
                "Workers cannot use what belongs to this process, the engine's "
                f"{', '.join(own)}: make an engine without it for a batch on workers."
            )

    async def write(self, value: Any) -> tuple[str, str]:
        """Return the digest of an input and its stored form for workers.

        Raises:
            RequestError: The input cannot be stored.
        """
        if isinstance(value, Request):
            raise RequestError(
                path="inputs",
                detail="An input of a batch on workers must not be a whole request.",
                remedy="Pass the question as the input, and the settings to the batch.",
            )
        told = digest(await self.wording.identify(value))
        if value.__class__ is str and self.wording.prompt is None:
            return told, write_input(value)
        return told, write_input(await self.wording.compose(value))

    async def restore(self, item: BatchItem[Any]) -> BatchItem[Any]:
        """Return an item of the journal with its value restored."""
        if self._parser is None or item.text is None:
            return item
        return attrs.evolve(item, value=await self._parser.read_without_blocking(item.text))

    async def close(self) -> None:
        """Close the model if the batch owns it."""
        if self._is_owner:
            await self._answering.close()


async def _take_turns(error: LimitError, ask: Callable[[], Awaitable[T]]) -> T:
    """Retry until the queue of a model that answers one request at a time has room.

    If the queue is full, nothing was sent; waiting behind other requests is not a failure.

    Args:
        error: Error of the first attempt.
    """
    pause = _FIRST_PAUSE_SECONDS
    while error.limit == "waiting_requests":
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE_SECONDS)
        try:
            return await ask()
        except LimitError as again:
            error = again
    raise error


def produce_outcome(answered: Answer) -> BatchItem[Any]:
    """Return the item of an answered input: the text of its answer and its usage.

    A turn without an answer, or a part of one, has failed; see :class:`.Shortfall`.
    """
    sent = answered.metadata.attempts if isinstance(answered, Response) else 1
    shortfall = answered.shortfall
    if shortfall is not None and shortfall.is_failure:
        error = produce_error(shortfall)
        return BatchItem(error=error, origin=_gather_usage(answered), sent=sent)
    text = answered.text
    return _make_item(
        value=text,
        text=text,
        origin=_gather_usage(answered),
        losses=tuple(map(str, answered.losses)),
        response=answered if isinstance(answered, Response) else None,
        sent=sent,
    )


def _gather_usage(answered: Answer) -> Origin | None:
    origin, used = answered.origin, answered.usage
    if origin is not None and origin.usage is not used:  # of a run, or with summaries
        return attrs.evolve(origin, usage=used)
    return origin


def conclude_run(outcome: RunOutcome) -> BatchItem[Any]:
    """Return the item of an input that was a run, with its usage, even if it failed."""
    try:
        ensure_answered(outcome)
    except ConverseError as error:
        return BatchItem(error=error, origin=_gather_usage(outcome), sent=count_reached(error))
    return produce_outcome(outcome)


def _account(answers: Sequence[Response]) -> Origin:
    """Return the origin of the last answer, with the usage of all if each is known."""
    usages = [each.usage for each in answers]
    used = None if None in usages else add_usages(usages)
    return attrs.evolve(answers[-1].origin, usage=used)


def _count_sent(answers: Sequence[Response], last: int = 1) -> int:
    """Return the highest number of times that one request was sent."""
    return max(last, *(each.metadata.attempts for each in answers))


def ensure_answered(outcome: RunOutcome) -> None:
    """Raise the error of a run that has no answer. Raises ConverseError."""
    if outcome.error is not None:
        raise outcome.error
    if outcome.reason is Reason.ANSWERED:
        return
    if outcome.state is State.AWAIT:
        what, remedy = "awaits approval", "Give the engine an approver."
    else:
        what = f"ended without an answer ({outcome.reason})"
        remedy = f"Raise limits.{outcome.limit}." if outcome.limit else ""
    raise ConverseError(
        detail=f"The run {what}. {outcome.detail}".rstrip(), remedy=remedy, stage=Stage.EXECUTE
    )
