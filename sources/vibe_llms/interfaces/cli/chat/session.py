"""Operations of a chat, independent of its display and input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.names import read_name
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import (
    ConverseError,
    Finding,
    LimitError,
    RequestError,
    StaleConversationError,
    TranslationLossError,
)
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.instruments.attachments import Attachment, ensure_readable, read_attachment
from vibe_llms.instruments.models import Model, RequestOptions
from vibe_llms.interfaces.cli.chat.statuses import (
    CONTINUE_MESSAGE,
    ChatStatus,
    read_status,
)
from vibe_llms.interfaces.cli.output import repair
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Origin,
    SummarizedPart,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import AnyContent, TextualContent
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.views import text_of
from vibe_llms.providers.interfaces import TokenCount

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.foundation.limits import Limits
    from vibe_llms.invocables.approvals import Approver
    from vibe_llms.invocables.ensembles import Ensemble
    from vibe_llms.invocables.registry import Registry
    from vibe_llms.telemetry.accounts import Account
    from vibe_llms.telemetry.odometer import Odometer

INPUT_ROLES = frozenset({"user", "document", "supervisor"})
_MESSAGE_ERRORS = (RequestError, TranslationLossError, LimitError)
"""Errors that the message itself causes, not its environment."""


@define(kw_only=True)
class ChatSession(Closing):
    """Conversation with a model that can be switched at any time.

    Attributes:
        application: The application that provides the models.
        store: The store to which each message is saved at once; ``None`` to store nothing.
        conversation: The messages.
        address: The address of the model; empty for the configured one.
        controls: The controls of each request.
        stream: Whether to stream answers.
        strict: Whether a lossy translation is an error.
        schema: A JSON Schema to which answers must conform.
        attachments: Attachments of the next message.
        odometer: Measures durations; ``None`` if they are not needed.
        tools: Ensembles of invocables for the model; connected from ``open`` to ``close``.
        approver: Approves invocations that need it.
        limits: Limits of one answer; by default the limits of the configuration.
        summaries: Origins of the summaries that were made for single requests in this session.
        tool_options: The options that give a later command the same tools.
    """

    application: Application
    store: ConversationStore | None
    conversation: Conversation = attrs.field(factory=Conversation)
    address: str = ""
    controls: Mapping[str, JsonValue] = attrs.field(factory=dict)
    stream: bool = True
    strict: bool = False
    schema: JsonObject | None = None
    attachments: list[Attachment] = attrs.field(factory=list)
    odometer: Odometer | None = None
    tools: tuple[Ensemble, ...] = ()
    approver: Approver | None = None
    limits: Limits | None = None
    _registry: Registry | None = attrs.field(default=None, init=False)
    _model: Model | None = attrs.field(default=None, init=False)
    summaries: list[Origin] = attrs.field(factory=list, init=False)
    _is_full: bool = attrs.field(default=False, init=False)
    tool_options: tuple[str, ...] = attrs.field(default=(), init=False)

    @property
    def model_name(self) -> str:
        """The address of the model, even if the configuration chose the model."""
        return self.address or self.application.configuration.model

    @property
    def system(self) -> str:
        """The current instructions."""
        instructions = [c for c in self.conversation.canisters if isinstance(c, SupervisorCanister)]
        return text_of(instructions[-1]) if instructions else ""

    @property
    def registry(self) -> Registry | None:
        """The connected invocables; ``None`` if the model has none."""
        return self._registry

    @property
    def status(self) -> ChatStatus:
        """State of the last turn."""
        return read_status(self.conversation.canisters)

    async def open(self) -> None:
        """Connect the tools; check that the model exists and accepts the request.

        Raises:
            RequestError: The model does not accept the request.
            EnsembleError: A tool cannot be connected.
            ConverseError: The model cannot be accessed.
        """
        if self.tools:
            from vibe_llms.invocables.registry import Registry

            guard = await self.application.access_argument_guard()
            registry = Registry(self.tools, guard=guard)
            await registry.connect()
            self._registry = registry
        await self._ensure_ready()

    async def close(self) -> None:
        """Disconnect the tools and release the models."""
        try:
            if self._registry is not None:
                await self._registry.disconnect()
        finally:
            await self.application.close()

    def add_instructions(self, text: str) -> None:
        """Add instructions that apply from this point."""
        self.store_canisters([SupervisorCanister(repair(text))])

    def attach(self, path: str, *, must_be_image: bool = False) -> Attachment:
        """Attach a file to the next message. Raises RequestError, LimitError."""
        limit = self.application.configuration.limits.attachment_bytes
        attachment = read_attachment(path, limit_bytes=limit, must_be_image=must_be_image)
        self.attachments.append(attachment)
        return attachment

    async def add_message(self, text: str) -> None:
        """Add the user's message with its attachments, and store it before returning.

        A message that the model cannot accept is discarded, because every later request would fail
        too. After other errors, for example because of a missing key, the message is kept and waits
        for its answer.

        Raises:
            RequestError: The model cannot accept the message; its attachments are removed.
            ConverseError: The model cannot be asked.
        """
        documents = [item for item in self.attachments if isinstance(item, DocumentCanister)]
        media = [item for item in self.attachments if not isinstance(item, DocumentCanister)]
        contents: list[AnyContent] = [*media]
        if text:
            contents.append(TextualContent(repair(ensure_readable(text, "The message"))))
        message: list[AnyCanister] = [*documents]
        if contents:
            message.append(UserCanister(contents))
        self.attachments.clear()
        try:
            await self._check([*self.conversation.canisters, *message])
        except _MESSAGE_ERRORS:
            raise
        except ConverseError:
            self._store_message(message)
            raise
        self._store_message(message)

    def _store_message(self, message: Sequence[AnyCanister]) -> None:
        """Add and store the user's message; unfinished calls of earlier runs get a result first."""
        self.conversation.add_canisters(message)
        has_calls = any(
            isinstance(each, InvocationCanister) for each in self.conversation.canisters
        )
        if has_calls and self.store is not None:
            # Imported only if needed, because it imports the run logs.
            from vibe_llms.runs.settling import settle_stored

            settle_stored(self.conversation, self.store)
        self._save()

    async def prepare_continuation(self) -> str:
        """Prepare the conversation so that ``answer`` continues its last turn.

        Returns:
            The message that was added for this; empty if none was needed.

        Raises:
            RequestError: The last answer is finished; or the model cannot accept the message.
        """
        match self.status:
            case ChatStatus.FINISHED:
                raise RequestError(
                    detail=ChatStatus.FINISHED.value, remedy="Send a message, or /retry."
                )
            case ChatStatus.CUT | ChatStatus.INTERRUPTED:
                await self.add_message(CONTINUE_MESSAGE)
                return CONTINUE_MESSAGE
        return ""

    async def compact(self, keep: int | None = None) -> SummarizedPart:
        """Continue in a fork that begins with a summary of this conversation.

        It has the same name. An unanswered message becomes the last message of the fork. The
        former conversation is unchanged.

        Args:
            keep: Number of last turns to keep word for word, now and from now on.

        Raises:
            RequestError: There is nothing to summarize.
            ConverseError: The model did not summarize it.
        """
        if not self.conversation.canisters:
            raise RequestError(
                detail="There is nothing to summarize yet.",
                remedy="/new starts a new conversation.",
            )
        compacted = await self.conversation.compact(self.produce_model(), keep=keep)
        if keep is not None:
            compacted.metadata = attrs.evolve(compacted.metadata, keep=keep)
        return self._adopt(compacted)

    async def make_room(self) -> SummarizedPart | None:
        """Compact the conversation if a new message has filled the model's window.

        Returns:
            The part that a summary replaces; ``None`` if there was room.

        Raises:
            ConverseError: The model did not summarize it; the conversation is unchanged.
        """
        last, model = self.conversation.last_message, self.produce_model()
        if model.window != "summarize" or last is None or last.role not in INPUT_ROLES:
            return None
        if self._is_full and not self.strict:  # the vendor has counted more than the estimate
            compacted = await model.compact(self.conversation)
        else:
            compacted = await model.make_room(self.conversation, **self.compose_options())
        return None if compacted is self.conversation else self._adopt(compacted)

    def _adopt(self, compacted: Conversation) -> SummarizedPart:
        from vibe_llms.conversations.compaction import find_summary

        summary = find_summary(compacted.canisters)
        assert summary is not None
        assert summary.summarizes is not None
        self.conversation, self._is_full = compacted, False
        self._save()
        return summary.summarizes

    def note_losses(self, losses: Sequence[Loss]) -> None:
        """Compact the conversation before its next answer if turns were left out of this one."""
        if not losses:
            self._is_full = False
            return
        from vibe_llms.models.windows import count_omitted

        self._is_full = bool(count_omitted(losses))

    def pin(self, index: int | None = None) -> AnyCanister:
        """Keep a message word for word in compactions; by default the user's last message.

        Raises:
            RequestError: The message does not exist.
        """
        canisters = self.conversation.canisters
        if index is None:
            inputs = [i for i, each in enumerate(canisters) if each.role == "user"]
            index = inputs[-1] if inputs else 0
        if index >= len(canisters):
            raise RequestError(
                path="/pin",
                detail=f"There is no message {index}.",
                remedy="`vibe show` numbers the messages.",
            )
        self.conversation.pin(canisters[index])
        self._save()
        return canisters[index]

    def unpin(self) -> None:
        """Remove all pins."""
        self._change_metadata(pinned=())

    def start_new(self) -> None:
        """Start a new conversation with the same instructions."""
        former = self.conversation
        instructions = {  # without duplicates
            text_of(canister): canister
            for canister in former.canisters
            if isinstance(canister, SupervisorCanister)
        }
        canisters = [SupervisorCanister(canister.content) for canister in instructions.values()]
        metadata = ConversationMetadata(tags=former.metadata.tags, model=former.metadata.model)
        self.conversation = Conversation(canisters=canisters, metadata=metadata)

    def fork_before_answer(self) -> bool:
        """Continue in a fork without the last answer; do nothing if there is no answer.

        Returns:
            Whether a fork was made.
        """
        canisters = self.conversation.canisters
        count = len(canisters)
        while count and canisters[count - 1].role not in INPUT_ROLES:
            count -= 1
        if count == len(canisters):
            return False
        self.fork(count)
        return True

    def fork(self, from_index: int | None = None) -> None:
        """Continue in a fork, which shares the first canisters; all by default."""
        self.conversation = self.conversation.fork(from_index)
        if len(self.conversation):  # an empty conversation is not stored
            self._save()

    def name(self, name: str) -> None:
        """Name the conversation. Raises RequestError if the name is invalid."""
        self._change_metadata(name=read_name(repair(name)))

    def _change_metadata(self, **changes: Any) -> None:
        self.conversation.metadata = attrs.evolve(self.conversation.metadata, **changes)
        if len(self.conversation):
            self._save()

    def take_notices(self) -> list[str]:
        """Return the store's notices, each once."""
        notices = [str(notice) for notice in self.conversation.notices]
        self.conversation.notices = ()
        return notices

    def store_canisters(self, canisters: Sequence[AnyCanister]) -> None:
        """Store canisters; they are durable when this returns.

        Canisters that other processes have added to the conversation come first.
        """
        if canisters:
            self.conversation.add_canisters(canisters)
            self._save()

    def _save(self) -> None:
        if self.store is None:
            return
        try:
            self.conversation.save(self.store)
        except StaleConversationError:
            self.conversation.save(self.store, merge=True)
            notice = Finding(
                place=self.conversation.id, message="Another program has written to it, too."
            )
            self.conversation.notices += (notice,)

    async def switch_model(self, address: str) -> None:
        """Switch to another model if it can be used; otherwise keep the current model.

        Raises:
            ConverseError: The model does not exist, lacks something, or has other controls.
        """
        former, self.address = self.address, address
        try:
            await self._ensure_ready()
        except BaseException:  # including Ctrl-C
            self.address = former
            raise

    def measure(self) -> Account:
        """Return the usage of the conversation, and of summaries for single requests.

        Times are those of this session, too.
        """
        from vibe_llms.telemetry.measuring import add_times, measure_canisters

        summaries = [AssistantCanister(origin=origin) for origin in self.summaries]
        account = measure_canisters([*self.conversation.canisters, *summaries])
        return account if self.odometer is None else add_times(account, self.odometer.account)

    async def count_tokens(self) -> TokenCount:
        """Count the input tokens of the conversation so far."""
        model = self.produce_model()
        return await model.count_tokens(model.request(self.conversation, continuation=True))

    async def _ensure_ready(self) -> None:
        """Check that the model can be used, without sending a request."""
        import asyncio

        from vibe_llms.plugins.missing_requirements import refuse_missing

        await self._check([UserCanister("?")])  # placeholder text: nothing is sent
        provider = self.application.resolve_address(self.address).provider
        await asyncio.to_thread(refuse_missing, self.application.plugins, provider)

    async def _check(self, canisters: Sequence[AnyCanister]) -> None:
        model = self.produce_model()
        await model.check(model.request(canisters, **self.compose_options()))

    def compose_options(self) -> RequestOptions:
        """Return the parts of each request other than the conversation."""
        options: RequestOptions = {"controls": self.controls}
        if self._registry is not None:
            options["invocables"] = self._registry.describe()
        if self.schema is not None:
            options["schema"] = self.schema
        return options

    def produce_model(self) -> Model:
        """Return the current model, cached until another is chosen."""
        if self._model is None or self._model.address != self.address:
            self._model = Model(
                self.address,
                application=self.application,
                reactors=None if self.odometer is None else self.odometer.reactors,
                strict=self.strict,
            )
        return self._model
