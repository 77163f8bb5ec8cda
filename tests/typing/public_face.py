"""Read by the type checker only: what the public face infers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, assert_type

import attrs

from vibe_llms import (
    AssistantCanister,
    AsyncChannel,
    BatchChannel,
    Conversation,
    ConversationReactors,
    ConverseError,
    Engine,
    Model,
    Parser,
    Prompt,
    Request,
    Response,
    SyncBatchChannel,
    SyncChannel,
    SyncEngine,
    SyncModel,
    TextualContent,
    UserCanister,
    load_provider,
)
from vibe_llms.batches.items import BatchItem
from vibe_llms.conversations import DirectoryStore
from vibe_llms.events.conversation import ConversationProgressEvent
from vibe_llms.events.stream import ContentDeltaEvent, StreamEvent
from vibe_llms.exceptions import ProviderError, Stage
from vibe_llms.instruments.answering import Answer, Answering
from vibe_llms.instruments.channels.replies import Reply
from vibe_llms.instruments.engines import RunOutcome
from vibe_llms.instruments.parsers.dialogue import Parsed
from vibe_llms.messages.canisters import AnyCanister, Canister, Usage
from vibe_llms.messages.contents import AnyContent, Content
from vibe_llms.messages.losses import Loss
from vibe_llms.providers.interfaces import Provider, TokenCount
from vibe_llms.providers.synchrony import SyncStream


async def asynchronously() -> None:
    """An answer is a response, and a stream yields events."""
    async with Model("scripted:echo", temperature=0.2) as model:
        assert_type(model, Model)
        response = await model.ask("Hello", system="Be brief.", controls={"top_p": 0.5})
        assert_type(response, Response)
        assert_type(response.text, str)
        assert_type(response.canisters, tuple[AnyCanister, ...])
        assert_type(response.losses, tuple[Loss, ...])
        async with model.stream("Hello") as stream:
            async for event in stream:
                assert_type(event, StreamEvent)
                if isinstance(event, ContentDeltaEvent):
                    assert_type(event.text, str)
            assert_type(await stream.response(), Response)


def synchronously() -> None:
    """The same without ``await`` has the same types."""
    with SyncModel("scripted:echo") as model:
        assert_type(model, SyncModel)
        assert_type(model.request("Hello"), Request)
        assert_type(model.ask("Hello"), Response)
        with model.stream("Hello") as stream:
            assert_type(stream, SyncStream)
            for event in stream:
                assert_type(event, StreamEvent)


@attrs.frozen
class City:
    """What an answer becomes below."""

    name: str


async def parsing(model: Model, sync_model: SyncModel) -> None:
    """What is asked for is what comes: the value of a class, of a list, or of a parser."""
    assert_type(Parser(City), Parser[City])
    assert_type(Parser(City).read("{}"), City)
    assert_type(await model.parse("Paris?", City), City)
    assert_type(await model.parse("Cities?", list[City]), list[City])
    assert_type(await model.parse("Paris?", Parser(City, attempts=2)), City)
    assert_type(await model.parse("Paris?", {"type": "object"}), Any)
    assert_type(await model.parse_with_response("Paris?", City), Parsed[City])
    async with model.follow("Paris?", City) as following:
        assert_type(await following.value(), City)
    assert_type(sync_model.parse("Paris?", City), City)
    assert_type(sync_model.parse("Paris?", {"type": "object"}), Any)
    assert_type(sync_model.parse_with_response("Paris?", Parser(City)), Parsed[City])
    with sync_model.follow("Paris?", City) as sync_following:
        assert_type(sync_following.value(), City)
    with sync_model.follow("Paris?", {"type": "object"}) as sync_following_data:
        assert_type(sync_following_data.value(), Any)


async def asking(model: Model) -> None:
    """A channel replies with text, or with what its parser makes."""
    assert_type((await AsyncChannel(model).ask("Hi")).value, str)
    assert_type((await AsyncChannel(model, parser=City).ask("Hi")).value, City)
    assert_type(SyncChannel(model, parser=Parser(City)), SyncChannel[City])
    assert_type(SyncChannel("scripted:echo", parser=City).fork().ask(place="x").value, City)
    assert_type(SyncChannel(model, tools=[len]).ask("Hi"), Reply[str])
    SyncChannel(model, tool=[len])  # type: ignore[call-overload]  # there is no such setting


def blocking(model: SyncModel, conversation: Conversation) -> None:
    """A synchronous face takes what the asynchronous class takes, and refuses what that refuses."""
    engine = SyncEngine(model, tools=[len], stream=False, strict=True)
    assert_type(engine.answer("Hello"), RunOutcome)
    assert_type(engine.run(conversation), Conversation)
    with engine as entered:
        assert_type(entered, SyncEngine)
    assert_type(model.asynchronous, Model)
    assert_type(model.count_tokens("Hello"), TokenCount)
    assert_type(model.answer(conversation, reactors=ConversationReactors()), Response)
    SyncModel("scripted:echo", strict=1)  # type: ignore[arg-type]
    SyncEngine(model, stream="no")  # type: ignore[arg-type]
    model.ask("Hello", sytem="x")  # type: ignore[call-arg]  # a slip shows where it was made
    model.ask(7)  # type: ignore[arg-type]


async def answering(either: Answering[Answer], model: Model, engine: Engine) -> None:
    """What answers can be a model or an engine; who knows which has all of its outcome."""
    known: tuple[Answering[Response], Answering[RunOutcome]] = (model, engine)
    assert_type(await known[0].answer("Hi"), Response)
    assert_type((await either.answer("Hi")).usage, Usage | None)
    await answering(model, model, engine)
    await answering(engine, model, engine)
    await answering(AsyncChannel(model), model, engine)  # type: ignore[arg-type]  # it is asked


def conversing(store: DirectoryStore) -> None:
    """A conversation gives canisters, and its fork is one, too."""
    conversation = Conversation()
    assert_type(conversation.add_user_message("Hello"), UserCanister)
    assert_type(conversation.canisters, Sequence[AnyCanister])
    assert_type(conversation.last_message, AnyCanister | None)
    assert_type(conversation.fork(from_index=1), Conversation)
    assert_type(Conversation.restore(store, conversation.id), Conversation)
    assert_type(DirectoryStore(Path("kept")), DirectoryStore)


def reading(canister: AnyCanister, content: AnyContent) -> str:
    """The shipped classes satisfy the protocols, and their unions are closed."""
    general: Canister = canister
    piece: Content = content
    assert_type(general.role, str)
    assert_type(piece.type, str)
    if isinstance(canister, AssistantCanister) and isinstance(content, TextualContent):
        return content.text
    return ""


def hearing(event: ConversationProgressEvent) -> None:
    """A reactor takes the event of its place, plain or asynchronous."""

    async def listen(event: ConversationProgressEvent) -> None: ...

    assert_type(event.chunk, str)
    ConversationReactors(progress=hearing)
    ConversationReactors(progress=listen)
    ConversationReactors(success=hearing)  # type: ignore[arg-type]  # another place's event


def failing(error: ConverseError) -> None:
    """An error's facts have types."""
    assert_type(error.stage, Stage)
    if isinstance(error, ProviderError):
        assert_type(error.retry_after_seconds, float | None)


assert_type(load_provider("local"), Provider)


class Invoice(NamedTuple):
    """What an answer becomes."""

    number: int


async def batching(model: Model) -> None:
    """A batch knows what comes of its work: texts of a model, else what the function returns."""

    async def measure(text: str) -> int:
        return len(text)

    assert_type(
        (await BatchChannel(model, system="Be brief.").collect(["a"])).values[0], str | None
    )
    assert_type((await BatchChannel(measure).collect(["a"])).values[0], int | None)
    with SyncBatchChannel(model, concurrency=2) as batch:
        for item in batch.run(["a"], ordered=True):
            assert_type(item, BatchItem[str])
    assert_type(SyncBatchChannel(measure).collect(["a"]).values[0], int | None)
    SyncBatchChannel(measure, system="x")  # type: ignore[call-overload]  # that is a model's
    parsing = BatchChannel(model, parser=Invoice)
    assert_type((await parsing.collect(["a"])).values[0], Invoice | None)


async def prompting(prompt: Prompt) -> None:
    """A prompt becomes a text or canisters, and a channel takes it as it is."""
    assert_type(prompt.render(place="Rome"), str)
    assert_type(prompt.required, frozenset[str])
    await Model("scripted:echo").ask(prompt.compose(place="Rome"))
    channel = AsyncChannel("scripted:echo", prompt=prompt)
    assert_type((await channel.ask(place="Rome")).value, str)
    Prompt("x", schema=Invoice)
