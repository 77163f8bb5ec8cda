"""Models and engines as the work of a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias, TypeVar

import attrs

from vibe_llms.batches.batch_specs import write_template
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
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.counting import estimate_request
from vibe_llms.providers.batches import BatchResult
from vibe_llms.providers.batching import AnyBatches
from vibe_llms.providers.interfaces import ConverserModel

_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.05, 1.0

_make_item = trusted(BatchItem)

T = TypeVar("T")

Ask: TypeAlias = Callable[[Any], Awaitable[BatchItem[Any]]]
"""Returns the result of one input; the run adds the index and the duration."""


@frozen(kw_only=True)
class InputComposer:
    """Composer of inputs, which renders inputs with a prompt or leaves them unchanged.

    Attributes:
        prompt: Renders inputs that are tables of variables as canisters.
    """

    prompt: Composing | None = None

    async def compose(self, value: Any) -> tuple[AnyCanister, ...]:
        """Return the composed input.

        Raises:
            RequestError: The input and the prompt do not fit together.
        """
        is_table = isinstance(value, Mapping)
        if self.prompt is None:
            if is_table:
                raise RequestError(
                    path="inputs",
                    detail="An input is a table of variables without a prompt to render them.",
                    remedy="Give a prompt.",
                )
            return gather_canisters(value)
        if not is_table:
            variables = ", ".join(sorted(self.prompt.variables)) or "nothing"
            raise RequestError(
                path="inputs",
                detail="An input is not a table of variables, which the prompt needs.",
                remedy=f"Pass values of {variables}.",
            )
        return await compose_without_blocking(self.prompt, value)

    async def identify(self, value: Any) -> Any:
        """Return the identity of an input; with a prompt, include the rendered text."""
        if self.prompt is None:
            return value
        try:
            canisters = await self.compose(value)
        except ConverseError:
            # An error here would end the batch; when the input is processed, it fails only this
            # input.
            return value
        return {"variables": value, "said": [[each.role, text_of(each)] for each in canisters]}


class ModelWork:
    """Model or engine that processes each input.

    Args:
        target: The model or engine; data that its answers share is looked up once per run.
        options: Options of each request to a model.
        composer: Composes inputs.
        parser: Parses the answers of a model; without it, they are text.
        is_owner: Whether the batch closes the model.
    """

    has_answers = True

    def __init__(
        self,
        target: Model | Engine,
        options: Mapping[str, Any],
        composer: InputComposer,
        parser: Parser[Any] | None = None,
        *,
        is_owner: bool = False,
    ) -> None:
        self.composer = composer
        self._target = target
        self._options = options
        self._parser = parser
        self._is_owner = is_owner
        self._template: Request | None = None

    @property
    def parser(self) -> Parser[Any] | None:
        """Parser of the answers; ``None`` for text."""
        return self._parser

    @property
    def is_engine(self) -> bool:
        """True if the work is an engine."""
        return isinstance(self._target, Engine)

    async def prepare(self) -> Ask:
        """Prepare the template of all requests; return the function that processes one input.

        Raises:
            ConverseError: The model or a tool cannot be used for any input.
        """
        if isinstance(self._target, Engine):
            self._template = await self._target.produce_template()
            return self._run_engine
        self._template = checked = self._target.request(PLACEHOLDER, **self._options)
        model = await self._target.access()
        if self._parser is not None:
            checked, _ = self._parser.compose(checked, model.descriptor.attributes)
        # Refuse work that would fail for every input before a journal is created.
        model.check(checked)
        return self._ask if self._parser is None else self._parse

    async def _ask(self, value: Any) -> BatchItem[Any]:
        request = await self._compose_request(value)
        model: Any = self._target
        try:
            answer = await model.answer(request, stream=False)
        except LimitError as error:
            answer = await _wait_for_queue(error, lambda: model.answer(request, stream=False))
        return produce_outcome(answer)

    async def _parse(self, value: Any) -> BatchItem[Any]:
        assert self._parser is not None
        parser, request = self._parser, await self._compose_request(value)
        model: Any = self._target
        answers: list[Response] = []  # all answers were billed, even if the last one fails
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
                parsed = await _wait_for_queue(error, ask)
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

    async def _run_engine(self, value: Any) -> BatchItem[Any]:
        assert isinstance(self._target, Engine)
        return conclude_run(await self._target.answer(await self.composer.compose(value)))

    async def access_model(self) -> ConverserModel:
        """Return the model."""
        return await self._model.access()

    async def produce_estimator(self, cap: Decimal) -> AnyEstimator:
        """Create the estimator of the maximum cost of an input.

        Raises:
            ConfigurationError: The cost is unknown.
        """
        target = self._target
        if isinstance(target, Engine):
            model = target.model
            converser_model = await model.access() if isinstance(model, Model) else model
            return RunEstimator(converser_model.descriptor, target.limits.run_cents, cap)
        converser_model = await target.access()
        return Estimator(
            converser_model.descriptor,
            self.template,
            1 if self._parser is None else self._parser.attempts,
            tries=target.application.configuration.limits.attempts,
        )

    @property
    def template(self) -> Request:
        """Request template with a placeholder for the input."""
        assert self._template is not None
        return self._template

    @property
    def _model(self) -> Model:
        assert isinstance(self._target, Model)
        return self._target

    async def _compose_request(self, value: Any) -> Request:
        """Compose the request of one input."""
        assert self._template is not None
        if isinstance(value, Request):
            return value
        # The last canister is the placeholder for the input.
        preface = self._template.canisters[:-1]
        if value.__class__ is str and self.composer.prompt is None:
            return evolve_unchecked(
                self._template, canisters=(*preface, produce_user_canister(value))
            )
        return replace_canisters(self._template, (*preface, *await self.composer.compose(value)))

    async def compose(self, value: Any) -> Request:
        """Compose the request of one input, for callers that send it themselves.

        Raises:
            RequestError: The input is empty, or does not fit the parser.
        """
        request = await self._model.hydrate(await self._compose_request(value))
        if self._parser is None:
            return request
        model = await self._model.access()
        return self._parser.compose(request, model.descriptor.attributes)[0]

    def estimate_tokens(self, request: Any, attributes: ModelAttributes) -> int:
        """Return the approximate input tokens of a request."""
        return estimate_request(request, attributes).tokens

    async def read_result(
        self, batches: AnyBatches, result: BatchResult, name: str | None
    ) -> BatchItem[Any]:
        """Return the item of a vendor's result. Raises ConverseError."""
        return await self._conclude(await batches.read_response(result, self.template))

    async def _conclude(self, response: Response) -> BatchItem[Any]:
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
        return value if self.composer.prompt is None else await self.composer.identify(value)

    async def compose_input(self, value: Any) -> Any:
        """Return the composed input. Raises RequestError."""
        return await self.composer.compose(value)

    def describe(self) -> Any:
        """Describe the settings that all inputs share."""
        assert self._template is not None
        kind = "engine" if isinstance(self._target, Engine) else "request"
        description = {kind: self._template.digest()}
        parser = self._parser
        if parser is None:
            return description
        return {**description, "parser": [parser.name, parser.schema]}

    def compose_spec(self) -> dict[str, Any]:
        """Return the work's part of a specification; see :class:`.BatchSpec`."""
        spec: dict[str, Any] = {
            "model": self.template.model,
            "request": write_template(self.template),
            "settings": digest(self.describe()),
        }
        engine, parser = self._target, self._parser
        if isinstance(engine, Engine):
            names = tuple(each.name for each in engine.ensembles)
            limits = export_limits(engine.limits)
            return {**spec, "is_engine": True, "ensembles": names, "limits": limits}
        if parser is None:
            return spec
        parser_spec = {
            "schema": dict(parser.schema),
            "name": parser.name,
            "attempts": parser.attempts,
        }
        return {**spec, **parser_spec}

    def ensure_portable(self) -> None:
        """Refuse an engine that depends on this process. Raises TypeError."""
        if isinstance(self._target, Engine) and (
            local_arguments := self._target.survey_local_arguments()
        ):
            raise TypeError(
                "Workers cannot use what belongs to this process, the engine's "
                f"{', '.join(local_arguments)}: make an engine without it for a batch on workers."
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
        input_digest = digest(await self.composer.identify(value))
        if value.__class__ is str and self.composer.prompt is None:
            return input_digest, write_input(value)
        return input_digest, write_input(await self.composer.compose(value))

    async def restore(self, item: BatchItem[Any]) -> BatchItem[Any]:
        """Return an item of the journal with its value restored."""
        if self._parser is None or item.text is None:
            return item
        return attrs.evolve(item, value=await self._parser.read_without_blocking(item.text))

    async def close(self) -> None:
        """Close the model if the batch owns it."""
        if self._is_owner:
            await self._target.close()


async def _wait_for_queue(error: LimitError, ask: Callable[[], Awaitable[T]]) -> T:
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


def produce_outcome(answer: Answer) -> BatchItem[Any]:
    """Return the item of an answered input: the text and the usage of the answer.

    If the answer is missing or incomplete, the item has failed; see :class:`.Shortfall`.
    """
    sent = answer.metadata.attempts if isinstance(answer, Response) else 1
    shortfall = answer.shortfall
    if shortfall is not None and shortfall.is_failure:
        error = produce_error(shortfall)
        return BatchItem(error=error, origin=_gather_usage(answer), sent=sent)
    text = answer.text
    return _make_item(
        value=text,
        text=text,
        origin=_gather_usage(answer),
        losses=tuple(map(str, answer.losses)),
        response=answer if isinstance(answer, Response) else None,
        sent=sent,
    )


def _gather_usage(answer: Answer) -> Origin | None:
    origin, usage = answer.origin, answer.usage
    # The usage of a run covers all of its answers, and that of an answer may include summaries.
    if origin is not None and origin.usage is not usage:
        return attrs.evolve(origin, usage=usage)
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
    usage = None if None in usages else add_usages(usages)
    return attrs.evolve(answers[-1].origin, usage=usage)


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
