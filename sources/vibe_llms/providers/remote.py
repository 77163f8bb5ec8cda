"""Providers that are reached over the network: what all of them share.

A vendor's folder says what is its own by a subclass of :class:`Vendor`; the provider, client and
model here do the rest: settings, key, transport, retries, limits and errors.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal
from urllib.parse import unquote, urlsplit

import attrs

from vibe_llms.exceptions import ConfigurationError, ConverseError, Finding, RequestError, Stage
from vibe_llms.messages.requests import Request
from vibe_llms.plain import JsonObject, JsonValue
from vibe_llms.plugins.specification import ProviderContext
from vibe_llms.providers.conversing import ModelBase
from vibe_llms.providers.credentials import acquire_key, advise_key, advise_of_key
from vibe_llms.providers.interfaces import ConversationTokenizer, ModelDescriptor, Translation
from vibe_llms.providers.needs import (
    Need,
    NeedKind,
    advise_of_server,
    find_server,
    find_variable,
    refuse_for_want,
)
from vibe_llms.providers.rates import Pace, SettlingSource, Turn
from vibe_llms.providers.retries import RetryingSource, RetryPolicy
from vibe_llms.providers.settings import TRANSPORTS, RemoteSettings, read_settings
from vibe_llms.providers.sources import Decoder, WireSource, read_problem
from vibe_llms.providers.streams import EventSource
from vibe_llms.providers.transports import produce_transport
from vibe_llms.secrets import Secret
from vibe_llms.wire.bodies import describe_address
from vibe_llms.wire.exchanges import Exchange, Transport, WireRequest
from vibe_llms.wire.frames import Framer

if TYPE_CHECKING:
    from vibe_llms.providers.surveys import SurveyedModel

CONTENT_TYPES: Final = {"sse": "text/event-stream", "ndjson": "application/x-ndjson"}


class Vendor(abc.ABC):
    """What one vendor does in its own way. Stateless but for its settings.

    Attributes:
        protocol: The dialect that is spoken.
        base_url: Where its service is, unless the user says otherwise; it may name variables of the
            environment, as ``{NAME}``.
        base_url_variables: Of the environment, which say otherwise as well.
        key_variables: The environment variables of its key; none where it takes no key.
        needs_key: Whether nothing can be asked without one.
        server_command: What starts its server, where that can run on this machine.
        framing: How a streamed answer is cut.
        request_id_headers: Where it names an exchange.
        further_settings: What the user can set besides, and what each must be.
    """

    protocol: ClassVar[str]
    base_url: ClassVar[str]
    base_url_variables: ClassVar[tuple[str, ...]] = ()
    key_variables: ClassVar[tuple[str, ...]] = ()
    needs_key: ClassVar[bool] = True
    server_command: ClassVar[str] = ""
    framing: ClassVar[Literal["sse", "ndjson"]] = "sse"
    request_id_headers: ClassVar[tuple[str, ...]] = ("x-request-id", "request-id")
    further_settings: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, context: ProviderContext) -> None:
        self.context = context
        self.settings = self.read_settings()

    def read_settings(self) -> RemoteSettings:
        """Checks the user's settings. Raises ConfigurationError."""
        return read_settings(
            self.context,
            self.base_url,
            self.further_settings,
            variables=self.base_url_variables,
        )

    def survey_needs(self) -> tuple[Need, ...]:
        """Says what is missing before anything can be asked. Asks nobody but this machine."""
        name, values = self.context.name, self.settings.values
        needs = find_variable(name, self.settings.missing_variables, "base_url")
        if values.get("transport") in (None, *TRANSPORTS) and not values.get("proxy"):
            needs = (*needs, *find_server(self.settings.base_url, self.advise_server()))
        if values.get("transport") == "sdk":
            return needs
        directory = self.context.data_directory
        if self.needs_key and acquire_key(name, values, self.key_variables, directory) is None:
            variable = str(values.get("api_key_variable") or (*self.key_variables, "")[0])
            remedy = advise_key(name, variable)
            needs = (*needs, Need(NeedKind.KEY, variable or "api_key", remedy))
        return needs

    def advise_server(self) -> str:
        """Says what to do where its server, on this machine, does not run."""
        place = f"base_url in [providers.{self.context.name}]"
        begun = f"Start it: {self.server_command};" if self.server_command else "Start it,"
        return f"{begun} or correct {place}."

    @abc.abstractmethod
    def nativize(
        self, request: Request, model: ModelDescriptor, *, streaming: bool
    ) -> Translation[JsonObject]:
        """Returns the body of the request. Pure. The controls are complete. Raises RequestError."""

    @abc.abstractmethod
    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Returns the path behind the base URL, such as ``/v1/messages``."""

    @abc.abstractmethod
    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Returns the headers of a request, its authorization among them."""

    @abc.abstractmethod
    def produce_decoder(self, model: ModelDescriptor, request: Request) -> Decoder:
        """Makes the decoder of one response to the request."""

    @abc.abstractmethod
    def produce_error(
        self,
        body: JsonObject | str,
        model: str,
        *,
        status: int,
        headers: Mapping[str, str],
    ) -> ConverseError:
        """Says what an answer with the status of an error means."""

    @abc.abstractmethod
    def produce_tokenizer(self, client: RemoteClient) -> ConversationTokenizer:
        """Makes what counts tokens; it may ask the vendor through the client."""

    async def survey(self, client: RemoteClient) -> Sequence[SurveyedModel]:
        """Asks the vendor for its models. By default it is not known how. Raises ConverseError."""
        return ()

    def prepare_body(self, native: JsonObject) -> JsonObject:
        """Returns what is sent of the native request, without what goes as headers."""
        return native

    def produce_sdk_client(self, key: Secret | None) -> Any:
        """Makes the official library's client, for the transport ``sdk``.

        Raises:
            ConfigurationError: The vendor has none that is known here.
        """
        raise ConfigurationError(
            findings=(
                Finding(
                    place=f"providers.{self.context.name}.transport",
                    message="This provider has no transport 'sdk'; leave it at 'direct'.",
                ),
            )
        )


class RemoteProvider:
    """Makes clients of one vendor.

    Args:
        context: As given by the plugin manager.
        vendor: What is the vendor's own; made when the first client is.
    """

    def __init__(self, context: ProviderContext, vendor: type[Vendor]) -> None:
        self._context = context
        self._vendor = vendor
        self._transport: Transport | None = None
        self._pace: Pace | None = None

    @property
    def name(self) -> str:
        """The name in the configuration."""
        return self._context.name

    def use_transport(self, transport: Transport) -> None:
        """Lets all further clients send through a transport of the host application.

        Such as ``SdkTransport(client)`` with a client of the official library.
        """
        self._transport = transport

    def access_pace(self, settings: RemoteSettings) -> Pace:
        """Returns what says when requests may go: one for all clients."""
        if self._pace is None:
            longest = self._context.limits.retry_seconds
            self._pace = Pace(settings.rates, longest_seconds=longest, clock=self._context.clock)
        return self._pace

    def survey_needs(self) -> tuple[Need, ...]:
        """Says what is missing before its models can be asked. Raises ConfigurationError."""
        return self._vendor(self._context).survey_needs()

    def produce_client(self) -> RemoteClient:
        """Makes a client. Connects to nothing yet. Raises ConfigurationError."""
        return RemoteClient(self, self._vendor(self._context), self._transport)


class RemoteClient:
    """Connections to a vendor, and its models.

    Args:
        transport: In place of what the settings name; it is not closed with the client.
    """

    def __init__(
        self, provider: RemoteProvider, vendor: Vendor, transport: Transport | None = None
    ) -> None:
        self.provider = provider
        self.vendor = vendor
        self.pace = provider.access_pace(vendor.settings)
        self._given = transport
        self._transport: Transport | None = transport
        self._integrator: Any = None
        self._key: Secret | None = None
        self._address = describe_address(vendor.settings.base_url)

    async def access_model(self, name: str = "") -> RemoteModel:
        """Returns a model by name; it need not be known here, for vendors have new ones daily.

        Raises:
            UnknownNameError: The name is empty and there is no default model.
        """
        return RemoteModel(self.describe(name or await self.choose_model()), self)

    async def choose_model(self) -> str:
        """Returns the default model; of a server of the user's own, the only one that it has.

        Raises:
            UnknownNameError: There is none, or several.
            ConverseError: The server cannot be asked which it has.
        """
        from vibe_llms.providers.surveys import choose_only

        vendor = self.vendor
        if vendor.settings.model or vendor.needs_key:
            return vendor.settings.model or self.describe("").name
        models = await self.survey_models(refresh=True)
        return choose_only(self.provider.name, [model.name for model in models])

    async def survey_models(self, *, refresh: bool = False) -> Sequence[ModelDescriptor]:
        """Lists the models that the vendor tells of, as of at most a day ago.

        Raises:
            ConverseError: It cannot be asked, and never has been.
        """
        from vibe_llms.providers.surveys import acquire_survey

        context = self.vendor.context
        survey = await acquire_survey(
            context.cache_directory, self._survey, address=self._address, refresh=refresh
        )
        return [self.describe(model.name, model) for model in survey.models]

    async def _survey(self) -> Sequence[SurveyedModel]:
        from vibe_llms.providers.surveys import is_sound

        try:
            models = await self.vendor.survey(self)
            if all(map(is_sound, models)):
                return models
            models = ()  # a traceback may show variables
            reason = "what it says of a model is of the wrong kind"
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, ConverseError):
                raise
            reason = f"{type(error).__name__}"
        raise ConverseError(
            detail=f"The list of models of {self.provider.name} makes no sense: {reason}.",
            stage=Stage.DECODE,
        )

    async def close(self) -> None:
        """Closes the connections. May be called again."""
        transport, self._transport = self._transport, self._given
        if transport is not None and transport is not self._given:
            await transport.close()

    def describe(self, name: str, surveyed: SurveyedModel | None = None) -> ModelDescriptor:
        """Returns what is known of a model; what the vendor said of it included."""
        if self._integrator is None:
            self._integrator = self.vendor.context.produce_attributes()
        learnt = {} if surveyed is None else surveyed.learnt
        attributes = self._integrator.integrate(
            name, learnt=learnt, learnt_from=f"the models that {self.provider.name} lists"
        )
        provider = self.provider.name
        return ModelDescriptor(
            provider=provider, name=attributes.address.name, attributes=attributes
        )

    async def request_json(
        self, method: str, path: str, body: JsonObject | None = None
    ) -> JsonValue:
        """Asks the vendor for something other than a response, such as a count of tokens.

        Raises:
            ConverseError: It did not answer, or with an error, or not in JSON.
        """
        from vibe_llms.providers.borders import decode_answer

        who = f"{self.provider.name} answered {path}"
        async with await self.send(method, path, body) as exchange:
            return decode_answer(await exchange.read(), who, self.clean)

    async def send(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        model: str = "",
        turn: Turn | None = None,
    ) -> Exchange:
        """Sends a request, once, and returns the answer; its status is no error.

        Args:
            model: Who is asked, for errors.
            turn: Is waited for before.

        Raises:
            ConverseError: It could not be sent, or the answer is an error.
        """
        try:
            return await self._send(method, path, body, model, turn)
        except ConverseError as error:
            advise_of_server(error, self.vendor.server_command and self.vendor.advise_server())
            raise self.clean(error)  # noqa: B904  # it is the same error

    def clean(self, error: ConverseError) -> ConverseError:
        """Takes out of an error what nobody may see, should the other side have sent it back."""
        from vibe_llms.providers.borders import clean_error

        return clean_error(error, self.list_secrets())

    def list_secrets(self) -> list[Secret]:
        """Returns what is sent and may not be shown."""
        settings = self.vendor.settings
        addresses = (urlsplit(settings.base_url), urlsplit(settings.values.get("proxy") or ""))
        found = [parts.password or parts.username for parts in addresses]
        passwords = [Secret(form) for text in found if text for form in {text, unquote(text)}]
        key = () if self._key is None else (self._key,)
        return [*key, *settings.headers.values(), *passwords]

    async def _send(
        self, method: str, path: str, body: JsonObject | None, model: str, turn: Turn | None
    ) -> Exchange:
        vendor = self.vendor
        native = body or {}
        headers = {"accept": "*/*", **vendor.compose_headers(self.require_key(), native)}
        if body is not None:
            headers["content-type"] = "application/json"
        request = WireRequest(
            method=method,
            url=vendor.settings.base_url + path,
            headers={**headers, **vendor.settings.headers},
            body=b"" if body is None else _encode(vendor.prepare_body(body)),
        )
        if turn is not None:
            await turn.take(len(request.body))
        exchange = await self._access_transport().send(request)
        if turn is not None:
            turn.learn(exchange.headers)
        if exchange.status < 400:
            return exchange
        status, answered = exchange.status, exchange.headers
        problem = await read_problem(exchange)
        error = vendor.produce_error(problem, model, status=status, headers=answered)
        advise_of_key(error, self.provider.name, vendor.key_variables)
        raise error

    def require_key(self) -> Secret | None:
        """Returns the key, ``None`` where none is needed. Raises ConfigurationError."""
        vendor = self.vendor
        name = self.provider.name
        values, directory = vendor.settings.values, vendor.context.data_directory
        key = self._key = acquire_key(name, values, vendor.key_variables, directory)
        is_theirs = self._given is not None or vendor.settings.values.get("transport") == "sdk"
        is_keyless = key is None and vendor.needs_key and not is_theirs
        if is_keyless or vendor.settings.missing_variables:
            refuse_for_want(name, vendor.survey_needs())
        return key

    def _access_transport(self) -> Transport:
        if self._transport is None:
            self._transport = self._produce_transport()
        return self._transport

    def _produce_transport(self) -> Transport:
        vendor, settings = self.vendor, self.vendor.settings
        if settings.values.get("transport") != "sdk":
            return produce_transport(vendor.context, settings)
        from vibe_llms.wire.sdk import SdkTransport

        return SdkTransport(
            vendor.produce_sdk_client(self.require_key()),
            limits=vendor.context.limits,
            timeouts=settings.timeouts,
            is_owner=True,
            base_url=settings.base_url,
        )


class RemoteModel(ModelBase[JsonObject]):
    """A model of a vendor."""

    def __init__(self, descriptor: ModelDescriptor, client: RemoteClient) -> None:
        vendor = client.vendor
        super().__init__(descriptor, vendor.produce_tokenizer(client), vendor.context.limits)
        self.protocol = vendor.protocol  # type: ignore[misc]  # it is the vendor's
        self._client = client
        self._vendor = vendor

    def nativize(self, request: Request, *, streaming: bool) -> Translation[JsonObject]:
        """Translates a request. Raises RequestError."""
        if self.descriptor.attributes.control_defaults:
            request = attrs.evolve(request, controls=self.complete_controls(request))
        return self._vendor.nativize(request, self.descriptor, streaming=streaming)

    def check(self, request: Request) -> None:
        """Refuses what could not be sent, for want of a key as well, and sends nothing."""
        super().check(request)
        self._client.require_key()

    async def send(self, native: JsonObject, request: Request, *, streaming: bool) -> EventSource:
        """Returns a source which sends the request when it is first read."""
        from vibe_llms.providers.borders import EventCleaner

        model, vendor, client = self.descriptor, self._vendor, self._client
        path = vendor.compose_path(model, streaming=streaming)

        def produce_source() -> EventSource:
            turn = Turn(client.pace)

            async def open_exchange() -> Exchange:
                return await client.send("POST", path, native, model=model.name, turn=turn)

            def clean(error: ConverseError) -> ConverseError:
                turn.heed(error)
                return client.clean(error)

            source = WireSource(
                open_exchange,
                vendor.produce_decoder(model, request),
                self._produce_framer,
                content_type=CONTENT_TYPES[vendor.framing] if streaming else "application/json",
                request_id_headers=vendor.request_id_headers,
                clean=clean,
                scrub=EventCleaner(client.list_secrets).clean,
            )
            return SettlingSource(source, turn) if client.pace.counts_tokens else source

        context = vendor.context
        return RetryingSource(produce_source, RetryPolicy.of(context.limits), clock=context.clock)

    def _produce_framer(self) -> Framer:
        limits = self._vendor.context.limits
        if self._vendor.framing == "ndjson":
            from vibe_llms.wire.ndjson import NdjsonFramer

            return NdjsonFramer(limits)
        from vibe_llms.wire.sse import SseFramer

        return SseFramer(limits)


def _encode(body: JsonObject) -> bytes:
    import msgspec

    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(
            detail=f"The request cannot be written as JSON: {error}.",
            remedy="Half a surrogate pair in a text is the usual cause.",
        ) from error
