"""Parser: a target type, and the mode in which a model answers."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Final, Generic, Literal, Self, TypeAlias, TypeVar, cast, overload

import attrs

from vibe_llms.exceptions import ParseError, RequestError, Stage
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.reprs import represent
from vibe_llms.foundation.sync_faces import iterate
from vibe_llms.instruments.answering import Answer
from vibe_llms.instruments.parsers.answer_following import AnswerFollower, follow, follow_items
from vibe_llms.instruments.parsers.extraction import extract
from vibe_llms.instruments.parsers.items import ItemReader, derive_item_kind
from vibe_llms.instruments.parsers.modes import Mode, ModeChoice, choose_mode
from vibe_llms.instruments.parsers.target_types import (
    Check,
    InvalidAnswer,
    TargetType,
    derive_kind,
    name_kind,
)
from vibe_llms.invocables.argument_faults import ArgumentFault, Misfit
from vibe_llms.invocables.bindings import Bound
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.validation import DataSize
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Owner,
    StopReason,
    SupervisorCanister,
)
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.requests import Request, Response
from vibe_llms.messages.views import answer_text, text_of
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.schema_features import survey_features
from vibe_llms.providers.interfaces import AsyncStream
from vibe_llms.providers.synchrony import SyncStream

T = TypeVar("T")

ModeWord: TypeAlias = Literal["auto", "native", "tool", "prompt"]

ATTEMPTS: Final = 3
"""Default maximum number of answers, including the first."""


class Parser(Generic[T]):
    """Parser for structured output: turn answers into values of a type.

    Args:
        kind: The type of the values: an attrs, dataclass, TypedDict, NamedTuple or pydantic class;
            ``list[...]``, a union, ``Literal``, an enumeration or any plain type. Or a JSON Schema:
            then the values are plain data.
        mode: Mode of structured output: ``native`` (the vendor enforces the schema), ``tool`` (the
            answer is the arguments of a call), ``prompt`` (instructions ask for the form). ``auto``
            chooses the first of these that the model is known to support.
        attempts: Maximum number of answers: each invalid answer is quoted with its faults, and the
            model is asked to correct it.
        name: The name of the answer as a tool; by default the class's name.
        description: The purpose of the answer; by default the first paragraph of the docstring.
        context: Passed to pydantic's validators as ``info.context``.
        check: Called with each value; raises ValueError to reject it, with a text for the model.

    Raises:
        RequestError: The type has no counterpart in JSON, or an argument is invalid.
    """

    @overload
    def __init__(
        self: Parser[T],
        kind: type[T],
        *,
        mode: ModeWord = "auto",
        attempts: int = ATTEMPTS,
        name: str = "",
        description: str = "",
        context: Any = None,
        check: Check | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Parser[Any],
        kind: object,
        *,
        mode: ModeWord = "auto",
        attempts: int = ATTEMPTS,
        name: str = "",
        description: str = "",
        context: Any = None,
        check: Check | None = None,
    ) -> None: ...
    def __init__(
        self,
        kind: Any,
        *,
        mode: ModeWord = "auto",
        attempts: int = ATTEMPTS,
        name: str = "",
        description: str = "",
        context: Any = None,
        check: Check | None = None,
    ) -> None:
        self.name = name or _compose_name(kind)
        self.attempts = attempts
        self.context = context
        self._mode = _read_mode(mode)
        if attempts < 1:
            raise _refuse(
                "attempts", f"attempts must be at least 1, not {attempts}.", "Pass 1 or more."
            )
        self.kind: TargetType = derive_kind(kind, self.name, context=context, check=check)
        self.description = description or self.kind.description or "Takes the answer."
        self._rebuild: Callable[[], Parser[T]] = functools.partial(
            type(self),
            kind,
            mode=mode,
            attempts=attempts,
            name=name,
            description=description,
            context=context,
            check=check,
        )

    def __reduce__(self) -> tuple[Callable[[], Parser[T]], tuple[()]]:
        return self._rebuild, ()  # converters cannot be pickled: the copy creates its own

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # it is immutable

    def __repr__(self) -> str:
        return represent("Parser", (("", self.kind.name),))

    @property
    def schema(self) -> JsonObject:
        """The JSON Schema to which answers must conform; always of an object."""
        return self.kind.schema

    def choose(self, attributes: ModelAttributes, *, has_tools: bool = False) -> ModeChoice:
        """Return the mode for a model, and its reason.

        Args:
            has_tools: The model may make other calls before its answer.

        Raises:
            CapabilityError: The model is known to lack the parser's own mode.
        """
        needs = survey_features(self.kind.sent_schema)
        return choose_mode(attributes, self._mode, has_tools=has_tools, needs=needs)

    def compose(self, request: Request, attributes: ModelAttributes) -> tuple[Request, ModeChoice]:
        """Return a request whose answer this parser can read, and its mode.

        Raises:
            RequestError: The request already has a schema or invocables.
        """
        if request.schema is not None or request.invocables:
            raise _refuse(
                "schema" if request.schema is not None else "invocables",
                "A request with a parser cannot have its own schema or invocations.",
                "Remove them: the parser sets both. A channel combines a parser with tools.",
            )
        choice = self.choose(attributes)
        match choice.mode:
            case Mode.NATIVE:
                return attrs.evolve(request, schema=self.kind.sent_schema), choice
            case Mode.TOOL:
                composed = attrs.evolve(
                    request, invocables=(self.describe(),), invocation_choice=self.name
                )
                return composed, choice
            case Mode.PROMPT:
                canisters = insert_instructions(request.canisters, self.instructions)
                return attrs.evolve(request, canisters=canisters), choice

    @property
    def instructions(self) -> str:
        """The instructions that ask a model to answer in this form."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        return f"Answer with JSON that conforms to this JSON Schema, and nothing else:\n{schema}"

    def describe(self) -> InvocableDescription:
        """Return the description of the tool whose arguments are the answer."""
        return InvocableDescription(
            name=self.name, description=self.description, schema=self.schema, enforced=False
        )

    def produce_invoker(self) -> Invoker:
        """Create the tool whose arguments are the answer; a valid call of it ends the run.

        The faults of an invalid answer become the result of the call, so that the model can correct
        it.
        """
        return Invoker(
            name=self.name,
            description=self.description,
            schema=self.schema,
            function=_accept_answer,
            bind=self._bind,
            effect=Effect.PURE,
            is_final=True,
        )

    def _bind(self, arguments: JsonObject, context: object) -> Bound:
        try:
            self.kind.make_valid(arguments)  # the schema was applied before
        except InvalidAnswer as invalid:
            misfits = [
                Misfit(each.rule, each.path.removeprefix("answer")) for each in invalid.faults
            ]
            raise Misfit(misfits[0].rule, misfits[0].path, misfits[1:]) from invalid
        return Bound()

    def read(self, answer: Response | Sequence[AnyCanister] | str) -> T:
        """Create the value of an answer.

        May wait for another process, which applies unusual parts of a schema. In an event loop, use
        :meth:`read_without_blocking`.

        Args:
            answer: A response, its canisters, or its text.

        Raises:
            ParseError: The answer is invalid.
            RequestError: The schema cannot be applied, or applying it takes too long.
        """
        try:
            return self._make(self._find_text(answer))
        except InvalidAnswer as invalid:
            raise self.produce_error([answer], invalid) from invalid

    async def read_without_blocking(self, answer: Response | Sequence[AnyCanister] | str) -> T:
        """Do the same as :meth:`read` without blocking the event loop."""
        try:
            return await self.validate(answer)
        except InvalidAnswer as invalid:
            raise self.produce_error([answer], invalid) from invalid

    async def validate(self, answer: Response | Sequence[AnyCanister] | str) -> T:
        """Do the same for callers that ask again: raises InvalidAnswer, which has the faults."""
        text = self._find_text(answer)
        # A value read from a text has at most as many nodes as the text has characters.
        if self.kind.converts_in_process(DataSize(len(text) + 1, len(text))):
            return self._make(text)
        import asyncio

        return await asyncio.to_thread(self._make, text)

    def _find_text(self, answer: Response | Sequence[AnyCanister] | str) -> str:
        if isinstance(answer, Response):
            answer = answer.canisters
        return answer if isinstance(answer, str) else self.find(answer)

    def _make(self, text: str) -> T:
        # Square brackets are common in prose: only for a list may they start the value.
        value = extract(text, self.kind.is_valid, "{[" if self.kind.is_list else "{")
        return cast(T, self.kind.make(value))

    def find(self, canisters: Sequence[AnyCanister]) -> str:
        """Return the answer as the model wrote it: the arguments of its call, or its text.

        Raises:
            InvalidAnswer: There are several calls, with different arguments.
        """
        different_arguments = {
            canister.arguments or "{}"
            for canister in canisters
            if isinstance(canister, InvocationCanister)
            and canister.owner is Owner.OURS
            and canister.name == self.name
        }
        if len(different_arguments) > 1:
            rule = f"was given {len(different_arguments)} times, with different values"
            raise InvalidAnswer(ArgumentFault(path="answer", rule=rule))
        return next(iter(different_arguments), "") or answer_text(canisters)

    def produce_error(
        self, answers: Sequence[Answer | Sequence[AnyCanister] | str], invalid: InvalidAnswer
    ) -> ParseError:
        """Create the error after the last invalid answer."""
        plain_answers = [
            answer if isinstance(answer, (str, Sequence)) else answer.canisters
            for answer in answers
        ]
        last = plain_answers[-1]
        error = ParseError(
            kind=self.kind.name,
            text=last if isinstance(last, str) else show_answer(last),
            faults=tuple(map(str, invalid.faults)),
            attempts=len(answers),
            remedy=_advise(answers[-1]),
        )
        error.keep_arrived(
            canister
            for answer in plain_answers
            if not isinstance(answer, str)
            for canister in answer
        )
        return error

    @overload
    def follow(self, stream: AsyncStream) -> AsyncIterator[Any]: ...
    @overload
    def follow(self, stream: SyncStream) -> Iterator[Any]: ...
    def follow(self, stream: AsyncStream | SyncStream) -> AsyncIterator[Any] | Iterator[Any]:
        """Yield the partial value whenever it grows; the complete value last.

        The partial value of an object is a :class:`Partial`, whose attributes are ``ABSENT`` until
        they are received; the partial value of an array is a sequence of the items received so far.

        Raises:
            ParseError: The answer is invalid, which is known only at the end.
        """
        source = stream.asynchronous if isinstance(stream, SyncStream) else stream
        values = follow(self.produce_follower(), source, self.read_without_blocking)
        return values if source is stream else iterate(values)

    @overload
    def follow_items(self, stream: AsyncStream) -> AsyncIterator[Any]: ...
    @overload
    def follow_items(self, stream: SyncStream) -> Iterator[Any]: ...
    def follow_items(self, stream: AsyncStream | SyncStream) -> AsyncIterator[Any] | Iterator[Any]:
        """Yield the items of a list as values of their type, each as soon as it is complete.

        Raises:
            RequestError: The parser's value is not a list.
            ParseError: An item is invalid, or the answer is not a list.
        """
        source = stream.asynchronous if isinstance(stream, SyncStream) else stream
        follower, items = self.produce_follower(), self.produce_item_reader()
        values = follow_items(follower, items, source, self.read_without_blocking)
        return values if source is stream else iterate(values)

    def produce_follower(self) -> AnswerFollower:
        """Create the reader of an answer that is being received."""
        return AnswerFollower(self.kind, self.name)

    def produce_item_reader(self) -> ItemReader:
        """Create the reader of the items of a list. Raises RequestError for another value."""
        return ItemReader(derive_item_kind(self.kind, self.name, self.context))


def show_answer(canisters: Sequence[AnyCanister]) -> str:
    """Return a model's output: its texts, and the arguments of its invocations."""
    texts = [
        canister.arguments if isinstance(canister, InvocationCanister) else text_of(canister)
        for canister in canisters
    ]
    return "\n\n".join(filter(None, texts))


def insert_instructions(
    canisters: Sequence[AnyCanister], instructions: str
) -> tuple[AnyCanister, ...]:
    """Insert instructions after those at the start of a conversation."""
    index = 0
    while index < len(canisters) and isinstance(canisters[index], SupervisorCanister):
        index += 1
    return (*canisters[:index], SupervisorCanister(instructions), *canisters[index:])


async def _accept_answer() -> str:
    return "Taken."


def _compose_name(kind: Any) -> str:
    name = re.sub(r"\W+", "_", name_kind(kind), flags=re.ASCII).strip("_")
    is_own_class = isinstance(kind, type) and kind.__module__ != "builtins"
    # `invocation_choice` takes the name of a tool or one of the words in CHOICES, such as "auto".
    is_usable = name.isidentifier() and name not in CHOICES
    return name if is_own_class and is_usable else "answer"


def _read_mode(word: str) -> Mode | None:
    if word == "auto":
        return None
    try:
        return Mode(word)
    except ValueError as error:
        known = ", ".join(("auto", *Mode))
        raise _refuse("mode", f"Unknown mode {word!r}.", f"Known: {known}.") from error


def _refuse(path: str, detail: str, remedy: str) -> RequestError:
    return RequestError(path=path, detail=detail, remedy=remedy, stage=Stage.CONFIGURE)


_ADVICE: Final = {
    StopReason.LIMIT: "The answer was cut off at its output limit: raise max_tokens.",
    StopReason.OVERFLOW: "The answer was cut off at the end of the model's window: ask with less.",
    StopReason.REFUSED: "The model refused: ask differently.",
    StopReason.FILTERED: "The vendor's content filter stopped the answer: ask differently.",
}


def _advise(answer: Answer | Sequence[AnyCanister] | str) -> str:
    if not isinstance(answer, Response):
        return ""
    shortfall = answer.shortfall
    detail = "" if shortfall is None or shortfall.limit else shortfall.detail
    if ":" in detail:  # it quotes the vendor
        return f"{detail} Ask {'again' if answer.stop_reason not in _ADVICE else 'otherwise'}."
    return _ADVICE.get(answer.stop_reason, detail)
