"""Base class of vendors: the differences between network providers."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import attrs

from vibe_llms.dialects.processors import Decoder, Dialect
from vibe_llms.dialects.simple_responses import SimpleResponse
from vibe_llms.exceptions import ConfigurationError, ConverseError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.secrets import Secret
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.credentials import acquire_key, advise_key
from vibe_llms.providers.interfaces import ModelDescriptor, Processors, Translation
from vibe_llms.providers.lowering import find_lowered, lower
from vibe_llms.providers.names import apply_aliases, find_aliases
from vibe_llms.providers.requirements import (
    Requirement,
    RequirementKind,
    find_server,
    find_variable,
)
from vibe_llms.providers.settings import TRANSPORTS, RemoteSettings, read_settings
from vibe_llms.providers.tokenizers import CountingClient, VendorTokenizer
from vibe_llms.providers.transports import ensure_files
from vibe_llms.tables.kinds import COUNT

if TYPE_CHECKING:
    from vibe_llms.dialects.backgrounds import BackgroundFormat
    from vibe_llms.dialects.call_quirks import CompletionQuirks
    from vibe_llms.dialects.calls import CallFormat
    from vibe_llms.models.genera import Genus
    from vibe_llms.providers.batches import VendorBatches
    from vibe_llms.providers.cloud_credentials import CloudCredentials
    from vibe_llms.providers.rates import RateLimiter, Ticket
    from vibe_llms.providers.request_encoding import EncodedBody
    from vibe_llms.providers.surveys import SurveyedModel
    from vibe_llms.providers.uploads import Renewable, Uploads, VendorFiles
    from vibe_llms.tables.kinds import Kind
    from vibe_llms.wire.exchanges import Exchange, WireRequest


class Vendor(abc.ABC):
    """The parts of a provider that are specific to one vendor. Stateless except for the settings.

    Attributes:
        dialect: The protocol: a package of ``dialects``.
        quirks: The vendor's deviations from the dialect, in the dialect's class for quirks.
        base_url: Default address of the service. It may contain environment variables, as
            ``{NAME}``.
        base_url_variables: Environment variables that also set the address.
        versions: Version segments, such as ``v1``, that are removed from the end of an address,
            because the paths of this vendor begin with the version.
        key_variables: Environment variables with the key; empty for a vendor without keys.
        needs_key: Whether a key is required.
        server_command: The command that starts its server, if that can run on this machine.
        framing: The framing of a streamed answer.
        request_id_headers: Headers with its id for an exchange.
        count_field: Field with the number of tokens in the answer to a request that counts them;
            empty if the vendor does not count tokens.
        further_settings: Additional settings, and the kind of each.
        caches_prefixes: Whether :meth:`cache_prefix` sends marked prefixes of requests in advance.
        cloud_credentials: Adds credentials to requests that have no key; ``None`` if the vendor has
            only keys.
        background: Its requests about responses in the background; ``None`` without such responses.
        compacts: Whether it can compact conversations: see :meth:`request_compaction`.
        upload_bytes: Default of the setting ``upload_bytes``: larger media are uploaded as files
            once, instead of with each request; 0 for a vendor without files.
    """

    dialect: Dialect
    quirks: Any = None
    base_url: str
    base_url_variables: tuple[str, ...] = ()
    versions: ClassVar[tuple[str, ...]] = ()
    key_variables: tuple[str, ...] = ()
    needs_key: bool = True
    server_command: str = ""
    framing: Literal["aws", "ndjson", "sse"] = "sse"
    request_id_headers: tuple[str, ...] = ("x-request-id", "request-id")
    count_field: str = ""
    further_settings: ClassVar[Mapping[str, Kind]] = {}
    caches_prefixes: ClassVar[bool] = False
    cloud_credentials: CloudCredentials | None = None
    background: BackgroundFormat | None = None
    compacts: ClassVar[bool] = False
    upload_bytes: int = 0

    def __init__(self, context: ProviderContext) -> None:
        self.context = context
        self.settings = self.read_settings()

    def read_settings(self) -> RemoteSettings:
        """Check the user's settings. Raises ConfigurationError."""
        return read_settings(
            self.context,
            self.base_url,
            {**self.further_settings, **({"upload_bytes": COUNT} if self.upload_bytes else {})},
            variables=self.base_url_variables,
            versions=self.versions,
        )

    def survey_requirements(self) -> tuple[Requirement, ...]:
        """Return the missing requirements. Does not use the network.

        Raises:
            ConfigurationError: A file in the settings cannot be used.
        """
        name, values = self.context.name, self.settings.values
        ensure_files(self.context, self.settings)
        requirements = find_variable(name, self.settings.missing_variables, "base_url")
        # A plugin's transport, or a proxy, may reach servers that this machine cannot reach.
        if values.get("transport") in (None, *TRANSPORTS) and not values.get("proxy"):
            requirements = (
                *requirements,
                *find_server(self.settings.base_url, self.advise_server()),
            )
        if values.get("transport") == "sdk":
            return requirements
        directory = self.context.data_directory
        if self.needs_key and acquire_key(name, values, self.key_variables, directory) is None:
            variable = str(values.get("api_key_variable") or (*self.key_variables, "")[0])
            remedy = advise_key(name, variable)
            requirements = (
                *requirements,
                Requirement(RequirementKind.KEY, variable or "api_key", remedy),
            )
        return requirements

    def advise_server(self) -> str:
        """Return what to do if its server, on this machine, is not running."""
        place = f"base_url in [providers.{self.context.name}]"
        start = f"Start it: {self.server_command};" if self.server_command else "Start it,"
        return f"{start} or correct {place}."

    def produce_processors(self, client: VendorClient) -> Processors:
        """Make the four processors: the dialect's processors, unless the vendor overrides one.

        Args:
            client: The client with which the tokenizer may ask the vendor.
        """
        processors = self.dialect.produce_processors(self.quirks)
        if not self.count_field:
            return processors
        return attrs.evolve(
            processors, tokenizer=VendorTokenizer(client, self.compose_count, self.count_field)
        )

    def compose_count(self, native: JsonObject, model: ModelDescriptor) -> tuple[str, JsonObject]:
        """Return the path and body of the call that counts a request's tokens."""
        raise NotImplementedError

    def compose_request(
        self, request: Request, model: ModelDescriptor, processors: Processors, *, streaming: bool
    ) -> Translation[JsonObject]:
        """Return the body of the request; tools and names are adapted to what the vendor accepts.

        Does no I/O. Expects complete controls. Raises RequestError.
        """
        losses: tuple[Loss, ...] = ()
        if custom := find_lowered(request, self.dialect.PROTOCOL, self.quirks):
            lowered = lower(request, custom)
            request, losses = lowered.value, lowered.losses
        if aliases := find_aliases(request, self.quirks):
            aliased = apply_aliases(request, aliases)
            request, losses = aliased.value, (*losses, *aliased.losses)
        native = self.nativize(request, model, processors, streaming=streaming)
        return Translation(native.value, (*losses, *native.losses)) if losses else native

    def nativize(
        self, request: Request, model: ModelDescriptor, processors: Processors, *, streaming: bool
    ) -> Translation[JsonObject]:
        """Return the body of a request whose tools and names are already adapted.

        :meth:`compose_request` calls it. A vendor overrides it to change the body.
        """
        return self.dialect.nativize_request(
            request,
            model.attributes,
            self.quirks,
            provider=model.provider,
            streaming=streaming,
            processors=processors,
        )

    def request_compaction(self, body: JsonObject, threshold: int | None) -> JsonObject:
        """Return a body with the fields that let the vendor compact the conversation.

        A vendor with ``compacts`` overrides it; see :mod:`.vendor_compaction`.

        Args:
            threshold: Number of tokens from which on it does; ``None`` for the vendor's default.
        """
        return body

    @property
    def keeps_responses(self) -> bool:
        """True if the vendor stores responses, so that they can be retrieved later."""
        return False

    @property
    def resumes_responses(self) -> bool:
        """True if a request may name a response in the background to resume."""
        return self.background is not None

    @property
    def known_quirks(self) -> Any:
        """The quirks that vibe-llms or the user has specified; ``None`` for an unknown service."""
        return self.quirks

    def find_known_quirks(self, model: ModelDescriptor) -> Any:
        """Return the known quirks of a model; by default those of the vendor."""
        return self.known_quirks

    @abc.abstractmethod
    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Return the path after the base URL, such as ``/v1/messages``."""

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Return the headers of a request with its authorization: by default a bearer token.

        Args:
            key: ``None`` without a key.
            native: The body, as some vendors need parts of the body in headers.
        """
        return {} if key is None else {"authorization": Secret(f"Bearer {key.reveal()}")}

    @property
    def cached_prefixes(self) -> Renewable | None:
        """The names of the prefixes that :meth:`cache_prefix` has sent; by default none."""
        return None

    async def cache_prefix(
        self,
        request: Request,
        translation: Translation[JsonObject],
        client: VendorClient,
        model: ModelDescriptor,
    ) -> Translation[JsonObject]:
        """Let the vendor cache the marked prefix of a request; return the request that uses it.

        Raises:
            ConverseError: The vendor cannot be asked.
        """
        return translation

    def produce_decoder(self, model: ModelDescriptor, request: Request) -> Decoder:
        """Make the decoder of one response to the request."""
        return self.dialect.Decoder(provider=model.provider, model=model.name)

    def find_simple_reader(
        self, *, streaming: bool
    ) -> Callable[[bytes], SimpleResponse | None] | None:
        """Return the reader for simple complete answers, usually the dialect's reader.

        ``None`` if there is no such reader, for example because the vendor has another decoder.

        Args:
            streaming: Whether the answer is a stream, which has arrived as a whole.
        """
        if type(self).produce_decoder is not Vendor.produce_decoder:
            return None
        name = "read_simple_stream" if streaming else "read_simple_response"
        return getattr(self.dialect.Decoder, name, None)

    def produce_batches(self, client: VendorClient, path: str) -> VendorBatches | None:
        """Return the vendor's batches of a kind of request; by default it has none.

        Args:
            path: The path of single requests, after the base URL.
        """
        return None

    def find_upload_bytes(self) -> int | None:
        """Return the size above which media are uploaded; ``None`` to send all with requests.

        A service at another address than the vendor's may have no files, so that uploads to it
        require the setting.
        """
        setting: int | None = self.settings.values.get("upload_bytes")
        if setting is None and self.settings.base_url == self.base_url:
            return self.upload_bytes or None
        return setting

    def produce_files(self, client: VendorClient) -> VendorFiles | None:
        """Return the vendor's files for media in messages; by default it has none."""
        return None

    def find_call_format(self, genus: Genus, model: ModelDescriptor) -> CallFormat[Any, Any] | None:
        """Return the vendor's format for calls of a genus; by default it has none.

        The genus determines the types of the request and the result.
        """
        return None

    def find_completions(self, model: ModelDescriptor) -> CompletionQuirks | None:
        """Return the quirks of the vendor's completions of prompts; by default it has none."""
        return None

    def produce_error(
        self, body: JsonObject | str, model: str, *, status: int | None, headers: Mapping[str, str]
    ) -> ConverseError:
        """Return the error for an answer with an error status."""
        return self.dialect.produce_error(
            body, provider=self.context.name, model=model, status=status, headers=headers
        )

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """List the vendor's models. Not supported by default. Raises ConverseError."""
        return ()

    def prepare_body(self, native: JsonObject) -> JsonObject:
        """Return the native request without the parameters that are sent as headers."""
        return native

    def produce_sdk_client(self, key: Secret | None) -> Any:
        """Make the official library's client, for the transport ``sdk``.

        Raises:
            ConfigurationError: The vendor's library is not supported.
        """
        place = f"providers.{self.context.name}.transport"
        message = "This provider has no transport 'sdk'; leave it at 'direct'."
        raise ConfigurationError.at(place, message)


class VendorClient(CountingClient, Protocol):
    """A client of one vendor, as :class:`.remote_clients.RemoteClient` is.

    Attributes:
        vendor: The parts that are specific to the vendor.
        limiter: Rate limits of the vendor.
        processors: The processors that write the model's requests, and the tokenizer.
    """

    vendor: Vendor
    limiter: RateLimiter
    processors: Processors

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
        """Send a request once and return the answer. Raises ConverseError."""

    def compose(
        self,
        method: str,
        path: str,
        body: JsonObject | None,
        encoded: EncodedBody | None,
        further: Mapping[str, str] | None = None,
    ) -> WireRequest:
        """Return a request with the key and all headers."""

    async def pass_through(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> Exchange:
        """Send bytes unchanged, once, and return the answer. Raises ConverseError."""

    def access_uploads(self) -> Uploads | None:
        """Return the uploads of this client; ``None`` if media are sent with each request."""

    def clean(self, error: ConverseError) -> ConverseError:
        """Remove secrets from an error."""

    def require_key(self) -> Secret | None:
        """Return the key. Raises ConfigurationError if the vendor needs one and none is set."""

    def list_secrets(self) -> Sequence[Secret]:
        """Return the secrets that must not appear in errors."""
