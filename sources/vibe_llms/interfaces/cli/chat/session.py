"""What can be done in a chat, without a word on how it looks or how it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

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
from vibe_llms.instruments.models import Model, RequestOptions
from vibe_llms.interfaces.cli.attachments import Attachment, ensure_readable, read_attachment
from vibe_llms.interfaces.cli.chat.output import ChatOutput
from vibe_llms.interfaces.cli.chat.statuses import (
    GO_ON,
    ChatStatus,
    read_status,
)
from vibe_llms.interfaces.cli.chat.turns import TurnResult, act, answer_alone
from vibe_llms.interfaces.cli.output import repair
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Origin,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import AnyContent, TextualContent
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.views import text_of
from vibe_llms.providers.interfaces import TokenCount

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.foundation.limits import Limits
    from vibe_llms.invocables.approvals import Approver
    from vibe_llms.invocables.ensembles import Ensemble
    from vibe_llms.invocables.registry import Registry
    from vibe_llms.providers.summaries import Summary
    from vibe_llms.telemetry.accounts import Account
    from vibe_llms.telemetry.odometer import Odometer

INPUT_ROLES = frozenset({"user", "document", "supervisor"})
_BLAMING = (RequestError, TranslationLossError, LimitError)
"""These say that what was said is to blame, and nothing around it."""


@define(kw_only=True)
class ChatSession(Closing):
    """A conversation with a model that can be exchanged on the way.

    Attributes:
        application: Where models are found.
        store: Where everything is kept before the next step; ``None`` to keep nothing.
        conversation: What was said.
        address: The model; empty for the configured one.
        controls: Their values.
        stream: Whether answers come piece by piece.
        strict: Whether a translation that loses something is an error.
        schema: A JSON Schema to which answers must conform.
        attachments: What goes with the next message.
        odometer: Measures how long things take; ``None`` where nobody will ask.
        tools: Ensembles of what the model may invoke; connected from ``open`` to ``close``.
        approver: Is asked about invocations that need it.
        limits: Bound what one answer may do; by default those of the configuration.
        summaries: Where the summaries came from that were made in this session.
        tool_options: The options by which a later command gives the same tools.
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
    tool_options: tuple[str, ...] = attrs.field(default=(), init=False)

    @property
    def model_name(self) -> str:
        """The address of the model, also where it is the configured one."""
        return self.address or self.application.configuration.model

    @property
    def system(self) -> str:
        """The instructions that hold now."""
        said = [c for c in self.conversation.canisters if isinstance(c, SupervisorCanister)]
        return text_of(said[-1]) if said else ""

    @property
    def registry(self) -> Registry | None:
        """What the model may invoke, connected; ``None`` where it may invoke nothing."""
        return self._registry

    @property
    def status(self) -> ChatStatus:
        """Whether the last message waits for an answer, or the last answer for more."""
        return read_status(self.conversation.canisters)

    async def open(self) -> None:
        """Connects the tools, and makes sure that there is such a model and what it takes.

        Raises:
            ConverseError: What accessing it raises, or RequestError, or EnsembleError.
        """
        if self.tools:
            from vibe_llms.invocables.registry import Registry

            registry = Registry(self.tools)
            await registry.connect()
            self._registry = registry
        await self._ensure_ready()

    async def close(self) -> None:
        """Disconnects the tools, and frees the models."""
        try:
            if self._registry is not None:
                await self._registry.disconnect()
        finally:
            await self.application.close()

    def instruct(self, text: str) -> None:
        """Adds instructions that hold from here on."""
        self.keep([SupervisorCanister(repair(text))])

    def attach(self, path: str, *, must_be_image: bool = False) -> Attachment:
        """Reads a file that goes with the next message. Raises RequestError, LimitError."""
        limit = self.application.configuration.limits.attachment_bytes
        attachment = read_attachment(path, limit_bytes=limit, must_be_image=must_be_image)
        self.attachments.append(attachment)
        return attachment

    async def say(self, text: str) -> None:
        """Adds what the user says, with what is attached; it is stored when this returns.

        What the model cannot take is not kept, or every later request would fail of it, too.
        Where something else is to blame, such as a key that is missing, it waits for its answer.

        Raises:
            RequestError: The model cannot take it; it is not attached any longer.
            ConverseError: The model cannot be asked.
        """
        documents = [item for item in self.attachments if isinstance(item, DocumentCanister)]
        media = [item for item in self.attachments if not isinstance(item, DocumentCanister)]
        contents: list[AnyContent] = [*media]
        if text:
            contents.append(TextualContent(repair(ensure_readable(text, "The message"))))
        said: list[AnyCanister] = [*documents]
        if contents:
            said.append(UserCanister(contents))
        self.attachments.clear()
        try:
            await self._check([*self.conversation.canisters, *said])
        except _BLAMING:
            raise
        except ConverseError:
            self._keep_said(said)
            raise
        self._keep_said(said)

    def _keep_said(self, said: Sequence[AnyCanister]) -> None:
        """Adds what the user says; calls that a run left behind get a result before it."""
        self.conversation.add_canisters(said)
        has_calls = any(
            isinstance(each, InvocationCanister) for each in self.conversation.canisters
        )
        if has_calls and self.store is not None:
            # Imported where there are calls: it brings the log of runs, which most starts spare.
            from vibe_llms.runs.settling import settle_stored

            settle_stored(self.conversation, self.store)
        self._save()

    async def answer(self, output: ChatOutput) -> TurnResult:
        """Lets the model answer, and act; what has arrived is stored, however the answer ends.

        Raises:
            ConverseError: No answer, or not to its end.
        """
        metadata = self.conversation.metadata
        self.conversation.metadata = attrs.evolve(metadata, model=self.model_name)
        output.begin(self.model_name)
        try:
            if self._registry is not None or self._is_for_engine():
                return await act(self, output)
            return await answer_alone(self, output)
        finally:
            output.finish()

    async def go_on(self, output: ChatOutput) -> TurnResult:
        """Lets an engine go on with whatever is open, and hear what others have said to the run.

        Raises:
            ConverseError: The run failed.
        """
        output.begin(self.model_name)
        try:
            return await act(self, output)
        finally:
            output.finish()

    def _is_for_engine(self) -> bool:
        """Tells whether something is open that only an engine goes on with, tools or not.

        Without the tools of before, it tells the model that they are gone.
        """
        last = self.conversation.last_message
        if last is None or last.role in INPUT_ROLES:
            return False
        return self.status in (ChatStatus.UNFINISHED, ChatStatus.BROKEN)

    async def prepare_continuation(self) -> str:
        """Makes the last turn one that ``answer`` goes on with; returns what was said for that.

        Raises:
            RequestError: The last answer is finished; or the model cannot take it.
        """
        match self.status:
            case ChatStatus.FINISHED:
                raise RequestError(
                    detail=ChatStatus.FINISHED.value, remedy="Send a message, or /retry."
                )
            case ChatStatus.CUT | ChatStatus.INTERRUPTED:
                await self.say(GO_ON)
                return GO_ON
        return ""

    def renew(self) -> None:
        """Begins a new conversation, in which the same instructions hold."""
        self.conversation = self._produce_conversation(())

    async def compact(self) -> Summary:
        """Goes on in a new conversation, which begins with a summary of the former one.

        It has the same name. A message that was not answered yet is its last. The former
        conversation stays as it is.

        Raises:
            RequestError: There is nothing to summarize.
            ConverseError: The model did not summarize it.
        """
        from vibe_llms.models.windows import measure_room
        from vibe_llms.providers.summaries import SUMMARY_TITLE, summarize

        canisters = [c for c in self.conversation.canisters if c.role != "supervisor"]
        count = len(canisters)
        while count and canisters[count - 1].role in INPUT_ROLES:
            count -= 1
        if not count:
            raise RequestError(
                detail="There is nothing to summarize yet.",
                remedy="/new starts a new conversation.",
            )
        instrument = self.produce_model()
        model = await instrument.access()
        room, _ = measure_room(model.descriptor.attributes, self.controls)
        request = instrument.request(canisters, continuation=True)
        summary = await summarize(model, request, canisters[:count], "", (room or 8192) // 2)
        document = DocumentCanister(summary.text, title=SUMMARY_TITLE)
        name = self.conversation.metadata.name
        self.conversation = self._produce_conversation([document, *canisters[count:]])
        self.conversation.metadata = attrs.evolve(self.conversation.metadata, name=name)
        self._save()
        self.summaries += summary.origins
        return summary

    def _produce_conversation(self, said: Sequence[AnyCanister]) -> Conversation:
        """Makes a conversation with the instructions of this one, and something said."""
        former = self.conversation
        words = {text_of(c): c for c in former.canisters if isinstance(c, SupervisorCanister)}
        canisters: list[AnyCanister] = [SupervisorCanister(c.content) for c in words.values()]
        canisters += [attrs.evolve(each, id=produce_identity()) for each in said]
        metadata = ConversationMetadata(tags=former.metadata.tags, model=former.metadata.model)
        return Conversation(canisters=canisters, metadata=metadata)

    def retreat(self) -> bool:
        """Goes back to before the last answer, in a fork; stays where there is no answer yet.

        Returns:
            Whether there is now a fork.
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
        """Goes on in a fork, which shares the first canisters; all by default."""
        self.conversation = self.conversation.fork(from_index)
        if len(self.conversation):  # one in which nothing was said is not kept
            self._save()

    def name(self, name: str) -> None:
        """Gives the conversation a name. Raises RequestError where it cannot be one."""
        self.conversation.metadata = attrs.evolve(
            self.conversation.metadata, name=read_name(repair(name))
        )
        if len(self.conversation):
            self._save()

    def take_notices(self) -> list[str]:
        """Returns what the store found on the way, each once."""
        notices = [str(notice) for notice in self.conversation.notices]
        self.conversation.notices = ()
        return notices

    def keep(self, canisters: Sequence[AnyCanister]) -> None:
        """Adds canisters; when it returns they survive whatever happens.

        Where others have written to the conversation meanwhile, what they said comes first.
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
        """Goes on with another model, if it can be asked; else stays with the former.

        Raises:
            ConverseError: There is none, or what it lacks; or it takes other controls.
        """
        former, self.address = self.address, address
        try:
            await self._ensure_ready()
        except BaseException:  # Ctrl-C as well
            self.address = former
            raise

    def measure(self) -> Account:
        """Returns what the conversation has used, and the summaries made in this session.

        Times are those of this session, too.
        """
        from vibe_llms.telemetry.measuring import add_times, measure_canisters

        summaries = [AssistantCanister(origin=origin) for origin in self.summaries]
        account = measure_canisters([*self.conversation.canisters, *summaries])
        return account if self.odometer is None else add_times(account, self.odometer.account)

    async def count_tokens(self) -> TokenCount:
        """Counts the tokens that the conversation so far takes as input."""
        model = self.produce_model()
        return await model.count_tokens(model.request(self.conversation, continuation=True))

    async def _ensure_ready(self) -> None:
        """Refuses a model that nobody can ask as things are, and asks it nothing."""
        import asyncio

        from vibe_llms.plugins.wants import refuse_wants

        await self._check([UserCanister("?")])  # any words will do: nothing is sent
        provider = self.application.resolve_address(self.address).provider
        await asyncio.to_thread(refuse_wants, self.application.plugins, provider)

    async def _check(self, canisters: Sequence[AnyCanister]) -> None:
        model = self.produce_model()
        await model.check(model.request(canisters, **self.compose_options()))

    def compose_options(self) -> RequestOptions:
        """Returns what each request says besides the conversation."""
        options: RequestOptions = {"controls": self.controls}
        if self._registry is not None:
            options["invocables"] = self._registry.describe()
        if self.schema is not None:
            options["schema"] = self.schema
        return options

    def produce_model(self) -> Model:
        """Returns the model as it is chosen now, the same one as long as it is."""
        if self._model is None or self._model.address != self.address:
            self._model = Model(
                self.address,
                application=self.application,
                reactors=None if self.odometer is None else self.odometer.reactors,
                strict=self.strict,
            )
        return self._model
