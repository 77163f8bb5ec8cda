"""Clients of vendors over the network: key, headers, one request at a time, and its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.foundation.secrets import Secret
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.messages.requests import Request
from vibe_llms.messages.trusting import trusted
from vibe_llms.models.genera import Genus
from vibe_llms.providers.credentials import acquire_key
from vibe_llms.providers.interfaces import GenusModel, ModelDescriptor, Provider, Translation
from vibe_llms.providers.passed_answers import PassedAnswers
from vibe_llms.providers.passed_headers import PassedHeaders
from vibe_llms.providers.rates import RateLimiter, Ticket
from vibe_llms.providers.remote_models import RemoteModel
from vibe_llms.providers.request_encoding import EncodedBody, encode_body
from vibe_llms.providers.requirements import advise_of_server, refuse_requirements
from vibe_llms.providers.retries import RetryPolicy
from vibe_llms.providers.settings import RemoteSettings
from vibe_llms.providers.transports import produce_transport
from vibe_llms.providers.vendor_errors import read_error
from vibe_llms.providers.vendors import Vendor
from vibe_llms.wire.exchanges import Exchange, Transport, WireRequest
from vibe_llms.wire.size_limits import describe_address
from vibe_llms.wire.tracing import compose_trace_headers

if TYPE_CHECKING:
    from vibe_llms.providers.surveys import SurveyedModel
    from vibe_llms.providers.uploads import Uploads

_ACCOUNT_DIGITS: Final = 8
"""Digits of the digest that tells keys apart in notes; too few to guess a key."""

_make_request: Final = trusted(WireRequest)


class RateLimitedProvider(Provider, Protocol):
    """A provider whose clients share a rate limiter, as :class:`.remote.RemoteProvider` is."""

    def access_limiter(self, settings: RemoteSettings) -> RateLimiter:
        """Return the rate limiter: one for all clients."""


class RemoteClient:
    """Connections to a vendor, and its models.

    Args:
        transport: A transport of the host application, which replaces the transport in the settings
            and is not closed with the client.
    """

    def __init__(
        self, provider: RateLimitedProvider, vendor: Vendor, transport: Transport | None = None
    ) -> None:
        self.provider = provider
        self.vendor = vendor
        self.limiter = provider.access_limiter(vendor.settings)
        self._host_transport = transport
        self._transport: Transport | None = transport
        self._integrator: Any = None
        self._key: Secret | None = None
        self._is_key_settled = False
        self._passed_headers = PassedHeaders(vendor)
        self._passed_answers = PassedAnswers(vendor, self.list_secrets)
        self._address = describe_address(vendor.settings.base_url)
        self._uploads: Uploads | None | Absence = ABSENT
        self.processors = vendor.produce_processors(self)

    async def access_model(self, name: str = "") -> RemoteModel:
        """Return a model by name; unknown names are allowed, as vendors have new models daily.

        Raises:
            UnknownNameError: The name is empty and there is no default model.
        """
        return RemoteModel(self.describe(name or await self.choose_model()), self)

    async def access(self, name: str, genus: Genus) -> GenusModel:
        """Return a model of a genus; unknown names are allowed, as with :meth:`access_model`.

        Raises:
            UnknownNameError: The vendor has no models of the genus, or the name is empty.
        """
        if genus is Genus.CONVERSER:
            return await self.access_model(name)
        from vibe_llms.providers.calls import RemoteCallModel
        from vibe_llms.providers.genera import refuse_default, refuse_genus

        default = self._find_default()
        if not name and not default:
            raise refuse_default(self.provider.name, genus)
        descriptor = self.describe(name or default)
        if not name and descriptor.attributes.genus is not genus:
            raise refuse_default(self.provider.name, genus)
        call_format = self.vendor.find_call_format(genus, descriptor)
        if call_format is None:
            raise refuse_genus(self.provider.name, genus)
        return RemoteCallModel(descriptor, self, call_format)

    async def choose_model(self) -> str:
        """Return the default model; for a server that the user runs, its only model.

        Raises:
            UnknownNameError: There is none, or several.
            ConverseError: The server cannot list its models.
        """
        from vibe_llms.providers.surveys import choose_only

        default = self._find_default()
        # A service with keys has many models, and the user must choose which one to use (and pay
        # for).
        if default or self.vendor.needs_key:
            return default or self.describe("").name
        models = await self.survey_models(refresh=True)
        return choose_only(self.provider.name, [model.name for model in models])

    async def survey_models(self, *, refresh: bool = False) -> Sequence[ModelDescriptor]:
        """List the vendor's models; the list is at most a day old.

        Raises:
            ConverseError: The vendor is unreachable, and there is no earlier list.
        """
        from vibe_llms.providers.surveys import acquire_survey

        context = self.vendor.context
        survey = await acquire_survey(
            context.cache_directory, self._survey, address=self._address, refresh=refresh
        )
        return [self.describe(model.name, model) for model in survey.models]

    async def _survey(self) -> Sequence[SurveyedModel]:
        from vibe_llms.providers.surveys import has_valid_fields

        try:
            models = await self.vendor.survey(self)
            if all(map(has_valid_fields, models)):
                return models
            models = ()  # so that a traceback does not show them
            reason = "an entry has a field of the wrong type"
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, ConverseError):
                raise
            reason = f"{type(error).__name__}"
        raise ConverseError(
            detail=f"The list of models of {self.provider.name} is invalid: {reason}.",
            stage=Stage.DECODE,
        )

    def nativize(
        self, request: Request, model: ModelDescriptor, *, streaming: bool = False
    ) -> Translation[JsonObject]:
        """Translate a request to the vendor's format. Raises RequestError."""
        return self.vendor.compose_request(request, model, self.processors, streaming=streaming)

    async def close(self) -> None:
        """Close the connections. May be called again."""
        # Replace the client before the await, so that a second call does not close it again.
        transport, self._transport = self._transport, self._host_transport
        if transport is not None and transport is not self._host_transport:
            await transport.close()

    def describe(self, name: str, surveyed: SurveyedModel | None = None) -> ModelDescriptor:
        """Return the descriptor of a model, including what the vendor reports."""
        facts = {} if surveyed is None else surveyed.facts
        attributes = self._access_integrator().integrate(
            name, facts=facts, facts_source=f"the models that {self.provider.name} lists"
        )
        provider = self.provider.name
        return ModelDescriptor(
            provider=provider, name=attributes.address.name, attributes=attributes
        )

    def _find_default(self) -> str:
        """Return the default model of the settings, or of the attributes; empty for none."""
        return self.vendor.settings.model or str(self._access_integrator().default_model)

    def _access_integrator(self) -> Any:
        if self._integrator is None:
            self._integrator = self.vendor.context.produce_attributes()
        return self._integrator

    async def request_json(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        encoded: EncodedBody | None = None,
    ) -> JsonValue:
        """Send a request whose answer is plain JSON, such as a token count.

        Args:
            encoded: Sent instead of the body, which is then used only to compute the headers.

        Raises:
            ConverseError: There is no answer, or it is an error, or not JSON.
        """
        from vibe_llms.providers.sanitization import decode_answer

        who = f"{self.provider.name} answered {path}"
        async with await self.send(method, path, body, encoded=encoded) as exchange:
            return decode_answer(await exchange.read(), who, self.clean)

    async def send(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        model: str = "",
        ticket: Ticket | None = None,
        encoded: EncodedBody | None = None,
    ) -> Exchange:
        """Send a request, once, and return the answer, whose status is not an error.

        Args:
            model: The model, for errors.
            ticket: Ticket of the rate limiter, which decides when to send.
            encoded: Sent instead of the body, which is then used only to compute the headers.

        Raises:
            ConverseError: It could not be sent, or the answer is an error.
        """
        vendor = self.vendor
        try:
            # Encode the body before waiting, as the usage is estimated from its size.
            request = self.compose(method, path, body, encoded)
            if ticket is not None:
                await ticket.acquire(len(request.body))
            exchange = await self._access_transport().send(request)
            if ticket is not None:
                ticket.learn(exchange.headers)
            if exchange.status < 400:
                return exchange
            # Raised inside the try, so that it is sanitized.
            raise await read_error(self, exchange, model, request.url)
        except ConverseError as error:
            advise_of_server(error, vendor.server_command and vendor.advise_server())
            raise self.clean(error)  # noqa: B904  # it is the same error

    def access_uploads(self) -> Uploads | None:
        """Return the uploads of this client; ``None`` if media are sent with each request."""
        if self._uploads is ABSENT:
            self._uploads = self._produce_uploads()
        return None if isinstance(self._uploads, Absence) else self._uploads

    def _produce_uploads(self) -> Uploads | None:
        vendor = self.vendor
        min_bytes = vendor.find_upload_bytes()
        files = None if min_bytes is None else vendor.produce_files(self)
        if min_bytes is None or files is None:
            return None
        from vibe_llms.providers.uploads import Uploads

        context = vendor.context
        return Uploads(
            self._compute_account,
            files,
            min_bytes,
            context.access_vendor_files,
            policy=RetryPolicy.of(context.limits),
            clock=context.clock,
        )

    def _compute_account(self) -> str:
        """Return the name of the account for notes: the address, and a short digest of the key."""
        import hashlib  # imports OpenSSL, and most conversations are text

        key = self.require_key()
        digest = hashlib.sha256((key.reveal() if key else "").encode()).hexdigest()
        return f"{self._address} {digest[:_ACCOUNT_DIGITS]}"

    async def pass_through(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> Exchange:
        """Pass bytes through unchanged, once, and return the vendor's answer, including errors.

        Secrets of the provider are removed from the answer, in case the vendor sent them back.

        Args:
            headers: Headers of the client, without credentials; headers of the provider override
                them.

        Raises:
            ConverseError: It could not be sent.
        """
        vendor = self.vendor
        request = _make_request(
            method=method,
            url=vendor.settings.base_url + path,
            headers=self._passed_headers.merge(self.require_key(), headers),
            body=body,
        )
        limiter = self.limiter
        tokens = limiter.estimate(len(body)) if limiter.counts_tokens else 0.0
        try:
            if not limiter.admit(tokens):
                await limiter.acquire(tokens)
            exchange = await self._access_transport().send(request)
        except ConverseError as error:
            advise_of_server(error, vendor.server_command and vendor.advise_server())
            raise self.clean(error)  # noqa: B904  # it is the same error
        if "0" in exchange.headers.values():  # most answers report no exhausted limit
            limiter.learn(exchange.headers)
        return self._passed_answers.guard(exchange, self._key)

    def clean(self, error: ConverseError) -> ConverseError:
        """Remove secrets from an error, in case the vendor sent them back."""
        from vibe_llms.providers.sanitization import clean_error

        return clean_error(error, self.list_secrets())

    def list_secrets(self) -> list[Secret]:
        """Return the secrets that are sent."""
        settings = self.vendor.settings
        addresses = (urlsplit(settings.base_url), urlsplit(settings.values.get("proxy") or ""))
        credentials = [parts.password or parts.username for parts in addresses]
        # An error may show a password as in the address, or decoded as it was sent.
        passwords = [Secret(form) for text in credentials if text for form in {text, unquote(text)}]
        key = () if self._key is None else (self._key,)
        cloud_credentials = self.vendor.cloud_credentials
        obtained = () if cloud_credentials is None else cloud_credentials.list_secrets()
        return [*key, *obtained, *settings.headers.values(), *passwords]

    def compose(
        self,
        method: str,
        path: str,
        body: JsonObject | None,
        encoded: EncodedBody | None,
        further: Mapping[str, str] | None = None,
    ) -> WireRequest:
        """Return a request with the key and all headers.

        Args:
            further: Further headers; those of the provider override them.
        """
        vendor = self.vendor
        headers: dict[str, str | Secret] = {"accept": "*/*", **(further or {})}
        headers |= vendor.compose_headers(self.require_key(), body or {})
        if encoded is None and body is not None:
            encoded = EncodedBody(encode_body(vendor.prepare_body(body)))
        if encoded is not None:
            headers["content-type"] = encoded.content_type
        headers |= compose_trace_headers()
        headers |= vendor.settings.headers  # the user's headers win
        return _make_request(
            method=method,
            url=vendor.settings.base_url + path,
            headers=headers,
            body=b"" if encoded is None else encoded.data,
        )

    def require_key(self) -> Secret | None:
        """Return the key; ``None`` if none is needed. Raises ConfigurationError."""
        vendor = self.vendor
        if self._is_key_settled:
            return self._key
        name = self.provider.name
        values, directory = vendor.settings.values, vendor.context.data_directory
        key = acquire_key(name, values, vendor.key_variables, directory)
        if key is None or self._key is None or key.reveal() != self._key.reveal():
            self._key = key
        key = self._key  # the same object for an equal key: headers and scrubbers are kept for it
        # The host's transport, or an official library, may authenticate in another way.
        has_other_authentication = (
            self._host_transport is not None
            or vendor.settings.values.get("transport") == "sdk"
            or (vendor.cloud_credentials is not None and vendor.cloud_credentials.is_ready)
        )
        is_keyless = key is None and vendor.needs_key and not has_other_authentication
        if is_keyless or vendor.settings.missing_variables:
            refuse_requirements(name, vendor.survey_requirements())
        # Variables and files may change and are read again; a key in the settings is final.
        self._is_key_settled = bool(values.get("api_key"))
        return key

    def _access_transport(self) -> Transport:
        if self._transport is None:
            self._transport = self._produce_transport()
        return self._transport

    def _produce_transport(self) -> Transport:
        vendor, settings = self.vendor, self.vendor.settings
        if settings.values.get("transport") != "sdk":
            transport = produce_transport(vendor.context, settings)
            if vendor.cloud_credentials is None:
                return transport
            from vibe_llms.providers.cloud_credentials import AuthorizingTransport

            return AuthorizingTransport(transport, vendor.cloud_credentials)
        from vibe_llms.wire.sdk import SdkTransport

        return SdkTransport(
            vendor.produce_sdk_client(self.require_key()),
            limits=vendor.context.limits,
            timeouts=settings.timeouts,
            is_owner=True,
            base_url=settings.base_url,
        )
