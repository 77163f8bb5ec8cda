"""A model by its name: the shortest way from a prompt to an answer.

``Model`` is for asynchronous code; ``SyncModel`` is the same behind the portal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Self, TypeAlias, TypedDict, Unpack

import attrs

from vibe_llms.application import Application, access_application
from vibe_llms.asynchrony import access_portal
from vibe_llms.conversations.contents import hydrate, needs_content_store
from vibe_llms.events.reactors import ConversationReactors, join_reactors
from vibe_llms.exceptions import RequestError
from vibe_llms.instruments.inputs import Input, gather_canisters, produce_native
from vibe_llms.instruments.parsing import ParsingModel, SyncParsingModel
from vibe_llms.messages.canisters import SupervisorCanister
from vibe_llms.messages.contents import Native
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request, Response, WindowPolicy
from vibe_llms.nearness import suggest
from vibe_llms.plain import JsonObject, JsonValue
from vibe_llms.providers.interfaces import AsyncStream, ConverserModel, SyncStream, TokenCount
from vibe_llms.providers.synchrony import PortalStream
from vibe_llms.providers.wishes import leave_out_controls
from vibe_llms.representation import represent


class RequestOptions(TypedDict, total=False):
    """What can be said about a request besides its prompt.

    Attributes:
        system: Instructions, put before everything.
        invocables: What the model may invoke.
        invocation_choice: ``auto``, ``none``, ``required``, or the name of an invocable.
        schema: A JSON Schema to which the answer must conform.
        continuation: The model shall go on with its own last turn.
        controls: Values for this request only; they win over the model's own.
        window: What becomes of the oldest turns where the conversation exceeds the model's window:
            ``stop``, ``drop`` or ``summarize``.
        lenient: A control that the model does not take is left out, as a loss that is told.
        native: Parameters in the words of the vendor who is asked, as it documents them; what the
            request itself says wins over them, and that is told as a loss.
    """

    system: str
    invocables: Sequence[InvocableDescription]
    invocation_choice: str
    schema: JsonObject
    continuation: bool
    controls: Mapping[str, JsonValue]
    window: WindowPolicy
    lenient: bool
    native: JsonObject | Native


class Model(ParsingModel):
    """A model, by ``provider:name``, with control values.

    Args:
        address: Such as ``local:smollm2``; empty for the configured model.
        application: Where the model is found; by default what this process has configured.
        reactors: Hear of every answer.
        strict: A request that cannot be translated without a loss is an error.
        window: What becomes of the oldest turns of a conversation that exceeds the model's window:
            ``stop`` is an error, ``drop`` leaves them out of what is sent, ``summarize`` has the
            model summarize them first; by default what the configuration says.
        lenient: A control that the model does not take is left out and told as a loss, instead of
            being an error; by default what the configuration says.
        controls: Values that every request starts from, such as ``temperature=0.2``.

    Use it as an asynchronous context manager, or close it at the end.
    """

    def __init__(
        self,
        address: str = "",
        *,
        application: Application | None = None,
        reactors: ConversationReactors | None = None,
        strict: bool = False,
        window: WindowPolicy | None = None,
        lenient: bool | None = None,
        **controls: JsonValue,
    ) -> None:
        self.address = address
        self.controls = controls
        self._given_application = application
        self._reactors = reactors
        self.strict = strict
        self._window = window
        self._lenient = lenient

    @property
    def window(self) -> WindowPolicy:
        """What becomes of the oldest turns of a conversation that exceeds the model's window."""
        return self._window or self.application.configuration.window

    @property
    def lenient(self) -> bool:
        """Whether a control that the model does not take is left out, and told as a loss."""
        given = self._lenient
        return self.application.configuration.lenient if given is None else given

    def __repr__(self) -> str:
        controls = ((name, value) for name, value in self.controls.items())
        return represent("Model", (("", self.address), *controls))

    @property
    def application(self) -> Application:
        """Where the model is found."""
        return self._given_application or access_application()

    async def access(self) -> ConverserModel:
        """Returns the model behind the name."""
        return await self.application.access_model(self.address, holder=self)

    def resolve_address(self) -> str:
        """Returns the whole address, ``provider:name``, also of the configured model."""
        return str(self.application.resolve_address(self.address))

    def compose_controls(self, controls: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Returns the values that hold: the configuration's, the model's own, and these."""
        return {**self.application.configuration.controls, **self.controls, **controls}

    def request(self, prompt: Input | Request, **options: Unpack[RequestOptions]) -> Request:
        """Builds a request without sending it; a request is returned as it is.

        Args:
            prompt: What is asked.
            options: See :class:`RequestOptions`.

        Raises:
            RequestError: There is nothing to answer.
            TypeError: There is no such option.
        """
        _check_options(options)
        if isinstance(prompt, Request):
            if options:
                raise RequestError(
                    path="prompt",
                    detail=f"A request takes no {', '.join(sorted(options))} besides it.",
                    remedy="Put them into the request; attrs.evolve makes a changed one.",
                )
            return prompt
        canisters = gather_canisters(prompt)
        if "system" in options:
            canisters = (SupervisorCanister(options["system"]), *canisters)
        return Request(
            canisters=canisters,
            model=self.resolve_address(),
            controls=self.compose_controls(options.get("controls", {})),
            invocables=tuple(options.get("invocables", ())),
            invocation_choice=options.get("invocation_choice", "auto"),
            schema=options.get("schema"),
            continuation=options.get("continuation", False),
            strict=self.strict,
            window=options.get("window", self.window),
            lenient=options.get("lenient", self.lenient),
            native=produce_native(options.get("native")),
            conversation_id=getattr(prompt, "id", "") if hasattr(prompt, "canisters") else "",
        )

    async def ask(
        self, prompt: Input | Request, *, stream: bool = True, **options: Unpack[RequestOptions]
    ) -> Response:
        """Asks and waits for the whole answer; its words are in the response's ``text``.

        Raises:
            ConverseError: No answer, or not to its end.
        """
        return await self.converse(prompt, stream=stream, **options)

    async def converse(
        self,
        prompt: Input | Request,
        *,
        reactors: ConversationReactors | None = None,
        stream: bool = True,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Answers a request or a conversation.

        Args:
            reactors: Hear of this answer, besides those of the model.
            stream: False asks the vendor for the response in one piece.
            options: See :class:`RequestOptions`.

        Raises:
            ConverseError: No answer, or not to its end.
        """
        request = await self.hydrate(self.request(prompt, **options))
        model = await self.access()
        return await model.converse(request, await self.join_reactors(reactors), stream=stream)

    async def check(self, prompt: Input | Request) -> None:
        """Refuses what the model could not take, and sends nothing.

        Raises:
            RequestError: The model cannot take it.
            TranslationLossError: Something would be lost, and the model is strict.
        """
        request = await self.hydrate(self.request(prompt))
        (await self.access()).check(request)

    @asynccontextmanager
    async def stream(
        self,
        prompt: Input | Request,
        *,
        reactors: ConversationReactors | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncIterator[AsyncStream]:
        """Answers piece by piece; leaving the context stops the answer.

        ::

            async with model.stream("Hello") as stream:
                async for event in stream:
                    ...
                response = await stream.response()
        """
        request = await self.hydrate(self.request(prompt, **options))
        model = await self.access()
        async with model.stream(request, await self.join_reactors(reactors)) as stream:
            yield stream

    async def count_tokens(self, prompt: Input | Request) -> TokenCount:
        """Counts the tokens which the prompt would occupy as input."""
        model = await self.access()
        request = await self.hydrate(self.request(prompt))
        if request.lenient:
            request, _ = leave_out_controls(request, model.descriptor.attributes)
        return await model.tokenizer.count_request(request, model.descriptor)

    async def close(self) -> None:
        """Frees what nobody else needs in this event loop: connections, loaded weights."""
        await self.application.release(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def join_reactors(
        self, reactors: ConversationReactors | None
    ) -> ConversationReactors | None:
        """Returns all who hear of an answer: the model's own, those given, and plugins'."""
        plugged = await self.application.produce_reactors()
        return join_reactors(self._reactors, reactors, *plugged)

    async def hydrate(self, request: Request) -> Request:
        """Loads the bytes of media that a store has taken over."""
        if not needs_content_store(request.canisters):
            return request
        contents = self.application.store.contents
        loaded = await asyncio.to_thread(hydrate, request.canisters, contents)
        return attrs.evolve(request, canisters=loaded)


class SyncModel(SyncParsingModel):
    """The same for synchronous code. It works anywhere, also where an event loop runs.

    Takes what :class:`Model` takes; use it as a context manager, or close it at the end.
    """

    def __init__(
        self,
        address: str = "",
        *,
        application: Application | None = None,
        reactors: ConversationReactors | None = None,
        strict: bool = False,
        window: WindowPolicy | None = None,
        lenient: bool | None = None,
        **controls: JsonValue,
    ) -> None:
        self._model = Model(
            address,
            application=application,
            reactors=reactors,
            strict=strict,
            window=window,
            lenient=lenient,
            **controls,
        )

    def __repr__(self) -> str:
        return f"Sync{self._model!r}"

    @property
    def asynchronous(self) -> Model:
        """The same for asynchronous code."""
        return self._model

    def request(self, prompt: Input | Request, **options: Unpack[RequestOptions]) -> Request:
        """Builds a request without sending it; see :meth:`Model.request`."""
        return self._model.request(prompt, **options)

    def ask(
        self, prompt: Input | Request, *, stream: bool = True, **options: Unpack[RequestOptions]
    ) -> Response:
        """Asks and waits for the whole answer; see :meth:`Model.ask`."""
        return self.converse(prompt, stream=stream, **options)

    def converse(
        self,
        prompt: Input | Request,
        *,
        reactors: ConversationReactors | None = None,
        stream: bool = True,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Answers a request or a conversation; see :meth:`Model.converse`."""
        return access_portal().call(
            lambda: self._model.converse(prompt, reactors=reactors, stream=stream, **options)
        )

    @contextmanager
    def stream(
        self,
        prompt: Input | Request,
        *,
        reactors: ConversationReactors | None = None,
        **options: Unpack[RequestOptions],
    ) -> Iterator[SyncStream]:
        """Answers piece by piece; see :meth:`Model.stream`."""
        portal = access_portal()
        context = self._model.stream(prompt, reactors=reactors, **options)
        stream = portal.call(context.__aenter__)
        try:
            yield PortalStream(stream)
        finally:
            portal.release(stream.close)
            portal.release(lambda: context.__aexit__(None, None, None))

    def count_tokens(self, prompt: Input | Request) -> TokenCount:
        """Counts the tokens which the prompt would occupy as input."""
        return access_portal().call(lambda: self._model.count_tokens(prompt))

    def close(self) -> None:
        """Frees what no other synchronous model needs: connections, loaded weights."""
        access_portal().call(self._model.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


AnyModel: TypeAlias = Model | SyncModel | ConverserModel | str
"""What a model can be given as: its address, an instrument, or what a provider gives access to."""


def read_model(given: AnyModel, application: Application | None = None) -> Model | ConverserModel:
    """Returns the model that is meant; a synchronous one is the asynchronous one behind it.

    Args:
        application: Where an address is looked up.

    Raises:
        TypeError: It is none.
    """
    if isinstance(given, str):
        return Model(given, application=application)
    if isinstance(given, SyncModel):
        return given.asynchronous
    if isinstance(given, Model) or hasattr(given, "descriptor"):
        return given
    raise TypeError(
        f"A model is wanted (its address, a Model, or what a provider gives access to), and not "
        f"{given!r}."
    )


def _check_options(options: Mapping[str, object]) -> None:
    for name in options.keys() - RequestOptions.__optional_keys__:
        hint = suggest(name, RequestOptions.__optional_keys__)
        raise TypeError(
            f"There is no option {name!r}{hint} The value of a control goes into "
            f"'controls', as in controls={{{name!r}: …}}."
        )
