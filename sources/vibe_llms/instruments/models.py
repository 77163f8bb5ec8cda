"""A model by its name: the shortest way from a prompt to an answer.

``Model`` is for asynchronous code; ``SyncModel`` wraps it for synchronous code.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import attrs

from vibe_llms.application import Application, access_application
from vibe_llms.conversations.canister_media import hydrate, needs_content_store
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.reprs import represent
from vibe_llms.foundation.sync_faces import SyncFace, blocking, constructed_like, direct, entering
from vibe_llms.instruments.inputs import PLACEHOLDER, Input, gather_canisters, produce_user_canister
from vibe_llms.instruments.options import (
    EngineOptions,
    ParseOptions,
    check_options,
    compose_fields,
    describe_ensembles,
    describe_invocables,
)
from vibe_llms.instruments.options import RequestOptions as RequestOptions
from vibe_llms.messages.canisters import SupervisorCanister, UserCanister
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.requests import Request, RequestFields, Response, WindowPolicy

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.instruments.parsers.dialogue import Dialogue, Parsed
    from vibe_llms.instruments.parsers.parsers import Parser
    from vibe_llms.instruments.parsers.sessions import Following, SyncFollowing
    from vibe_llms.providers.interfaces import AsyncStream, ConverserModel, TokenCount
    from vibe_llms.providers.synchrony import SyncStream

T = TypeVar("T")
_P = ParamSpec("_P")


class Model(Closing):
    """A model, named ``provider:name``, with default parameters.

    Use it as an asynchronous context manager, or close it at the end.

    Args:
        address: Address of the model, such as ``local:smollm2``; empty for the configured model.
        application: The configuration to use; by default that of this process.
        reactors: Callbacks for every answer.
        strict: Raise an error if a request cannot be translated without a loss.
        window: Handling of conversations that exceed the context window: ``stop`` (an error),
            ``drop``, ``summarize`` or ``vendor``; by default as configured.
        lenient: Replace or omit parameters that the model does not support, and report them as
            losses, instead of raising an error; by default as configured.
        cache: Let the vendor cache the tools and the conversation of every request; by default
            as configured.
        controls: Default parameters of every request, such as ``temperature=0.2``.
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
        cache: CacheHint | None = None,
        **controls: JsonValue,
    ) -> None:
        self.address = address
        self.controls = controls
        self._given_application = application
        self._reactors = reactors
        self.strict = strict
        self._window = window
        self._lenient = lenient
        self._cache = cache
        self._template: tuple[object, Request] | None = None
        """Template of requests, with the values from which it was built."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_template": None}  # it refers to this process's application

    @property
    def window(self) -> WindowPolicy:
        """Handling of conversations that exceed the context window."""
        return self._window or self.application.configuration.window

    @property
    def lenient(self) -> bool:
        """True if unsupported parameters are replaced or omitted instead of raising an error."""
        lenient = self._lenient
        return self.application.configuration.lenient if lenient is None else lenient

    @property
    def cache(self) -> CacheHint | None:
        """The cache hint of every request."""
        return self._cache or self.application.configuration.cache

    def __repr__(self) -> str:
        controls = ((name, value) for name, value in self.controls.items())
        return represent("Model", (("", self.address), *controls))

    @property
    def application(self) -> Application:
        """The application in use; by default that of this process."""
        return self._given_application or access_application()

    async def access(self) -> ConverserModel:
        """Return the provider's model of this name.

        Raises:
            UnknownNameError: No such provider or model, or the model does not converse.
            ConverseError: The provider cannot be loaded.
        """
        from vibe_llms.providers.genera import ensure_converser

        model = await self.application.access_model(self.address, holder=self)
        ensure_converser(model.descriptor)
        return model

    def resolve_address(self) -> str:
        """Return the complete address, ``provider:name``."""
        return str(self.application.resolve_address(self.address))

    def compose_fields(self, options: EngineOptions) -> RequestFields:
        """Merge the fields of the configuration, the model and these options."""
        application = self.application
        return compose_fields(
            options,
            model=str(application.resolve_address(self.address)),
            controls={**application.controls, **self.controls},
            strict=self.strict,
            window=self.window,
            lenient=self.lenient,
            cache=self.cache,
        )

    def request(self, prompt: Input | Request, **options: Unpack[RequestOptions]) -> Request:
        """Build a request without sending it; return a request unchanged.

        Args:
            prompt: The input.
            options: See :class:`RequestOptions`.

        Raises:
            RequestError: The prompt is empty. An unknown option is a TypeError.
        """
        # Fast path: most questions are plain texts, whose requests share all other fields.
        if not options and prompt.__class__ is str:
            question, identity = (produce_user_canister(prompt),), produce_identity()
            return evolve_unchecked(
                self._access_template(), canisters=question, conversation_id=identity
            )
        if options:
            check_options(options)
        if isinstance(prompt, Request):
            if options:
                raise RequestError(
                    path="prompt",
                    detail=f"With a Request, {', '.join(sorted(options))} cannot be passed "
                    "separately.",
                    remedy="Set them in the request; attrs.evolve makes a changed copy.",
                )
            return prompt
        canisters = gather_canisters(prompt)
        if "system" in options:
            canisters = (SupervisorCanister(options["system"]), *canisters)
        return Request(
            canisters=canisters,
            invocables=describe_invocables(options),
            continuation=options.get("continuation", False),
            **self.compose_fields(options),
            # A prompt that is not a conversation starts a new one, with a new id.
            conversation_id=getattr(prompt, "id", "")
            if hasattr(prompt, "canisters")
            else produce_identity(),
        )

    async def _compose(self, prompt: Input | Request, options: RequestOptions) -> Request:
        """Build a request. Ensembles among its tools are connected, to get their descriptions."""
        return self.request(prompt, **await describe_ensembles(options))

    def _access_template(self) -> Request:
        """Return the template of all requests for a text, with the fields they share."""
        application = self.application
        # Controls are compared as text: `True` equals `1`, and the caller may modify their values
        # in place.
        options = (self.strict, self._window, self._lenient, self._cache)
        key = (application, self.address, options, repr(self.controls))
        if self._template is None or self._template[0] != key:
            request = Request(canisters=(UserCanister(PLACEHOLDER),), **self.compose_fields({}))
            self._template = (key, request)
        return self._template[1]

    async def ask(
        self, prompt: Input | Request, *, stream: bool = True, **options: Unpack[RequestOptions]
    ) -> Response:
        """Ask and wait for the complete response; its text is in ``text``.

        Raises:
            ConverseError: The request failed, or the answer broke off.
        """
        return await self.answer(prompt, stream=stream, **options)

    async def answer(
        self,
        prompt: Input | Request,
        *,
        reactors: ConversationReactors | None = None,
        stream: bool = True,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Answer a request or a conversation.

        Args:
            reactors: Callbacks for this answer, in addition to those of the model.
            stream: False requests the response in one piece.
            options: See :class:`RequestOptions`.

        Raises:
            ConverseError: The request failed, or the answer broke off.
        """
        request = await self._compose(prompt, options) if options else self.request(prompt)
        # Fast path: most calls do not wait for the event loop before they send the request.
        if prompt.__class__ is not str and needs_content_store(request.canisters):
            request = await self.hydrate(request)
        application = self.application
        model = application.find_model(self.address, self) or await self.access()
        if application.is_silent and (reactors is None or self._reactors is None):
            joined = self._reactors if reactors is None else reactors
        else:
            joined = await self.join_reactors(reactors)
        return await model.converse(request, joined, stream=stream)

    async def check(self, prompt: Input | Request) -> None:
        """Validate a prompt against the model without sending it.

        Raises:
            RequestError: The model does not support it.
            TranslationLossError: The translation loses something, and the model is strict.
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
        """Stream an answer; leaving the context stops it.

        ::

            async with model.stream("Hello") as stream:
                async for event in stream:
                    ...
                response = await stream.response()
        """
        request = await self.hydrate(await self._compose(prompt, options))
        model = await self.access()
        async with model.stream(request, await self.join_reactors(reactors)) as stream:
            yield stream

    @overload
    async def parse(
        self, prompt: Input | Request, kind: Parser[T] | type[T], **options: Unpack[ParseOptions]
    ) -> T: ...
    @overload
    async def parse(
        self, prompt: Input | Request, kind: object, **options: Unpack[ParseOptions]
    ) -> Any: ...
    async def parse(
        self, prompt: Input | Request, kind: Any, **options: Unpack[ParseOptions]
    ) -> Any:
        """Ask and return the answer as a value.

        An invalid answer is sent back to the model with its errors, to be corrected.

        Args:
            kind: The type of the value: a class, a JSON Schema, or a :class:`.Parser`,
                which has more options.
            options: See :class:`ParseOptions`.

        Raises:
            ParseError: No answer is valid.
            ConverseError: The request failed, or the answer broke off.
        """
        return (await self.parse_with_response(prompt, kind, **options)).value

    @overload
    async def parse_with_response(
        self, prompt: Input | Request, kind: Parser[T] | type[T], **options: Unpack[ParseOptions]
    ) -> Parsed[T]: ...
    @overload
    async def parse_with_response(
        self, prompt: Input | Request, kind: object, **options: Unpack[ParseOptions]
    ) -> Parsed[Any]: ...
    async def parse_with_response(
        self, prompt: Input | Request, kind: Any, **options: Unpack[ParseOptions]
    ) -> Parsed[Any]:
        """Return the value with its response, the mode and all attempts; see :meth:`parse`."""
        dialogue = await self._start_dialogue(prompt, kind, options)
        return await dialogue.converse(self.answer)

    @overload
    def follow(
        self, prompt: Input | Request, kind: Parser[T] | type[T], **options: Unpack[ParseOptions]
    ) -> AbstractAsyncContextManager[Following[T]]: ...
    @overload
    def follow(
        self, prompt: Input | Request, kind: object, **options: Unpack[ParseOptions]
    ) -> AbstractAsyncContextManager[Following[Any]]: ...
    @asynccontextmanager
    async def follow(
        self, prompt: Input | Request, kind: Any, **options: Unpack[ParseOptions]
    ) -> AsyncIterator[Following[Any]]:
        """Ask and stream the partial value; leaving the context stops the answer.

        ::

            async with model.follow("Tell me about Paris.", City) as following:
                async for partial in following:
                    print(partial.name)
                city = await following.value()
        """
        from vibe_llms.instruments.parsers.sessions import Following

        dialogue = await self._start_dialogue(prompt, kind, options)
        async with Following(dialogue, self.stream) as following:
            yield following

    async def _start_dialogue(
        self, prompt: Input | Request, kind: Any, options: ParseOptions
    ) -> Dialogue[Any]:
        from vibe_llms.instruments.parsers.dialogue import Dialogue
        from vibe_llms.instruments.parsers.parsers import Parser

        listener = options.pop("listener", None)
        parser = kind if isinstance(kind, Parser) else Parser(kind)
        request = self.request(prompt, **cast("RequestOptions", options))
        attributes = (await self.access()).descriptor.attributes
        composed, choice = parser.compose(request, attributes)
        return Dialogue(parser=parser, request=composed, choice=choice, listener=listener)

    async def count_tokens(self, prompt: Input | Request) -> TokenCount:
        """Count the input tokens of a prompt."""
        model = await self.access()
        request = await self.hydrate(self.request(prompt))
        if request.lenient:
            from vibe_llms.providers.parameters import leave_out_controls

            request, _ = leave_out_controls(request, model.descriptor.attributes)
        return await model.tokenizer.count_request(request, model.descriptor)

    async def compact(self, conversation: Conversation, *, keep: int | None = None) -> Conversation:
        """Return a fork that begins with a summary; see :meth:`.Conversation.compact`."""
        from vibe_llms.conversations.compaction import compact

        request = self.request(conversation, continuation=True)
        return await compact(conversation, request, await self.access(), self.answer, keep=keep)

    async def make_room(
        self, conversation: Conversation, **options: Unpack[RequestOptions]
    ) -> Conversation:
        """Compact a conversation if ``window`` is ``summarize`` and full; else return itself."""
        from vibe_llms.conversations.compaction import make_room

        options["continuation"] = True
        request = self.request(conversation, **options)
        return await make_room(conversation, request, await self.access(), self.answer)

    async def close(self) -> None:
        """Close connections and unload weights that nothing else in this event loop uses."""
        await self.application.release(self)

    async def join_reactors(
        self, reactors: ConversationReactors | None
    ) -> ConversationReactors | None:
        """Return all reactors of an answer: of the model, the call and the application."""
        shared = await self.application.produce_reactors()
        if self._reactors is None and reactors is None and not shared:
            return None
        from vibe_llms.events.reactors import join_reactors  # imports all events

        return join_reactors(self._reactors, reactors, *shared)

    async def hydrate(self, request: Request) -> Request:
        """Load the bytes of media from the store."""
        if not needs_content_store(request.canisters):
            return request
        import asyncio

        contents = self.application.store.contents
        loaded = await asyncio.to_thread(hydrate, request.canisters, contents)
        return attrs.evolve(request, canisters=loaded)


def entering_following(
    method: Callable[Concatenate[Any, _P], AbstractAsyncContextManager[Following[T]]],
) -> Callable[Concatenate[Any, _P], AbstractContextManager[SyncFollowing[T]]]:
    """Derive a synchronous method from one whose context is a :class:`.Following`."""

    def wrap(following: Following[T]) -> SyncFollowing[T]:
        from vibe_llms.instruments.parsers.sessions import SyncFollowing

        return SyncFollowing(following)

    return entering(method, wrap)


def _wrap_stream(stream: AsyncStream) -> SyncStream:
    from vibe_llms.providers.synchrony import SyncStream  # imports all of the providers

    return SyncStream(stream)


class SyncModel(SyncFace[Model]):
    """A model for synchronous code, with the arguments of :class:`Model`.

    It also works inside a running event loop. Use it as a context manager, or close it at the end.
    """

    @constructed_like(Model)
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(Model(*arguments, **settings))

    request = direct(Model.request)
    ask = blocking(Model.ask)
    answer = blocking(Model.answer)
    stream = entering(Model.stream, _wrap_stream)
    parse = blocking(Model.parse)
    parse_with_response = blocking(Model.parse_with_response)
    follow = entering_following(Model.follow)
    count_tokens = blocking(Model.count_tokens)
    compact = blocking(Model.compact)
    make_room = blocking(Model.make_room)
    close = blocking(Model.close)


AnyModel: TypeAlias = "Model | SyncModel | ConverserModel | str"
"""A model as an argument: its address, a ``Model``, or a model of a provider."""


def read_model(model: AnyModel, application: Application | None = None) -> Model | ConverserModel:
    """Return the asynchronous model for an argument.

    Args:
        application: Finds the model of an address.

    Raises:
        TypeError: The argument is not a model.
    """
    if isinstance(model, str):
        return Model(model, application=application)
    if isinstance(model, SyncModel):
        return model.asynchronous
    if isinstance(model, Model) or hasattr(model, "descriptor"):
        return model
    raise TypeError(
        f"Expected a model (an address, a Model, or a provider's model), not {model!r}."
    )
