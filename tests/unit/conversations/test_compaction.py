"""Compaction: a fork that begins with a summary; the parent keeps everything."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from support.conversations.long_chats import Player, load_small, repeat_facts
from vibe_llms import AsyncChannel, Engine, Model, SyncModel
from vibe_llms.application import Application
from vibe_llms.conversations import DirectoryStore, MemoryStore, verify
from vibe_llms.conversations.compaction import find_summary, read_whole
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import ContextOverflowError, ConverseError, ProviderError, RequestError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    SupervisorCanister,
    Usage,
    UserCanister,
)
from vibe_llms.messages.contents import FileContent, TextualContent
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import text_of, usage_of
from vibe_llms.models.counting import count_canister
from vibe_llms.models.windows import measure_room
from vibe_llms.runs.copying import copy_store
from vibe_llms.runs.syncing import sync_stores
from vibe_llms.telemetry.measuring import measure_canisters

FACT = "Fact: the cat is called Mia."


@pytest.fixture
def player(monkeypatch: pytest.MonkeyPatch) -> Player:
    """The answers of the model."""
    player = Player(repeat_facts)
    player.install(monkeypatch)
    return player


@pytest.fixture
def application(tmp_path: Path, player: Player) -> Application:
    """An application with a window of 2,000 tokens."""
    return load_small(tmp_path)


@pytest.fixture
def model(application: Application) -> Model:
    """A model that summarizes."""
    return Model(application=application)


def converse(*texts: str) -> list[AnyCanister]:
    """Return exchanges, each with an answer."""
    canisters: list[AnyCanister] = []
    for number, text in enumerate(texts):
        canisters += [UserCanister(text), AssistantCanister("All right.", turn_id=f"t{number}")]
    return canisters


def compose(exchanges: int, *more: AnyCanister) -> Conversation:
    """Return a conversation with instructions, a fact, and a number of exchanges."""
    texts = [FACT, *(f"Question {number} " + "word " * 60 for number in range(exchanges - 1))]
    return Conversation(
        canisters=[SupervisorCanister("Be kind."), *converse(*texts), *more],
        metadata=ConversationMetadata(name="Cats", tags=("t",), model="scripted:echo"),
    )


async def test_a_fork_begins_with_a_summary(model: Model) -> None:
    """Instructions and the last four turns stay; the summary names what it replaces."""
    conversation = compose(10)
    before = conversation.canisters[:]

    fork = await conversation.compact(model)

    assert [each.role for each in fork.canisters[:3]] == ["supervisor", "document", "user"]
    assert list(fork.canisters[2:]) == before[-8:]
    summary = fork.canisters[1]
    assert isinstance(summary, DocumentCanister)
    assert text_of(summary) == FACT
    assert summary.summarizes is not None
    assert summary.summarizes.conversation == conversation.id
    assert (summary.summarizes.first, summary.summarizes.last) == (before[1].id, before[12].id)
    assert fork.id != conversation.id
    assert (fork.metadata.name, fork.metadata.tags) == ("Cats", ("t",))
    assert list(conversation.canisters) == before


def test_synchronous_code_compacts_the_same_way(application: Application) -> None:
    """The method returns the fork itself if it is given a synchronous model."""
    with SyncModel(application=application) as model:
        fork = compose(10).compact(model)
        assert model.make_room(fork) is fork

    assert find_summary(fork.canisters) is fork.canisters[1]


async def test_a_conversation_says_how_many_turns_stay(model: Model) -> None:
    """By its metadata, which forks inherit, or for once by an argument."""
    conversation = compose(10)
    conversation.metadata = attrs.evolve(conversation.metadata, keep=1)

    fork = await conversation.compact(model)

    assert len(fork) == 4
    assert fork.metadata.keep == 1
    assert len(await conversation.compact(model, keep=0)) == 2
    assert len(await conversation.compact(model, keep=2)) == 6
    assert len(await conversation.compact(model, keep=10**12)) == 10  # as many as fit


async def test_fewer_turns_stay_if_they_do_not_fit(model: Model, player: Player) -> None:
    """The fork fills at most half of the window, so that it can grow."""
    long = converse(*("word " * 300 for _ in range(5)))
    conversation = Conversation(canisters=[*converse(FACT), *long, UserCanister("facts?")])

    fork = await conversation.compact(model)

    assert [each.role for each in fork.canisters] == ["document", "user", "assistant", "user"]
    assert (await model.ask(fork)).text == FACT


async def test_pinned_messages_stay_word_for_word(model: Model) -> None:
    """Also in later compactions; a pinned result stays with its call."""
    call = InvocationCanister(invocation_id="c", name="look", turn_id="x")
    result = ResultCanister("Found", invocation_id="c", name="look")
    conversation = compose(10)
    conversation._own_canisters()[3:3] = [UserCanister("Look!"), call, result]
    question = conversation.canisters[1]
    conversation.pin(question, result)

    fork = await conversation.compact(model)
    fork.add_canisters(converse(*["word " * 60] * 6))
    again = await fork.compact(model)

    for each in (fork, again):
        assert [question, call, result] == [
            kept for kept in each.canisters if kept in (question, call, result)
        ]
    assert again.metadata.pinned == (question.id, result.id)


async def test_open_calls_stay(model: Model) -> None:
    """A call without its result is kept with the rest of its answer."""
    said = AssistantCanister("I look.", turn_id="x")
    call = InvocationCanister(invocation_id="c", name="look", turn_id="x")
    closed = InvocationCanister(invocation_id="d", name="look", turn_id="y")
    result = ResultCanister("Found", invocation_id="d")
    conversation = compose(10)
    conversation._own_canisters()[3:3] = [UserCanister("Look!"), said, call, closed, result]

    fork = await conversation.compact(model)

    assert said in fork.canisters
    assert call in fork.canisters
    assert closed not in fork.canisters


async def test_a_summary_is_not_between_a_call_and_its_result(model: Model) -> None:
    """Of parallel calls, one is pinned; the summary comes before it."""
    calls = [InvocationCanister(invocation_id=each, name="f", turn_id="t") for each in "ab"]
    results = [ResultCanister("out", invocation_id=each, name="f") for each in "ab"]
    turn = [UserCanister("Go."), *calls, *results]
    conversation = Conversation(canisters=[*turn, *converse("Next")])
    conversation.pin(results[1])

    fork = await conversation.compact(model, keep=1)

    summary = find_summary(fork.canisters)
    assert fork.canisters[:-2] == [summary, calls[1], results[1]]


async def test_the_summary_names_the_files(model: Model) -> None:
    """Of attachments, documents and calls, also those of an earlier summary."""
    call = InvocationCanister(
        invocation_id="c", name="read", arguments='{"path": "src/a.py"}', turn_id="x"
    )
    conversation = compose(10)
    conversation._own_canisters()[3:3] = [
        UserCanister([FileContent(data=b"%PDF-", name="report.pdf"), TextualContent("Read.")]),
        DocumentCanister("text", title="notes.md"),
        call,
        ResultCanister("def", invocation_id="c"),
    ]

    fork = await conversation.compact(model)
    fork.add_canisters(converse(*["word " * 60] * 6))
    again = await fork.compact(model)

    for each in (fork, again):
        summary = find_summary(each.canisters)
        assert summary is not None
        assert summary.summarizes is not None
        assert set(summary.summarizes.files) == {"report.pdf", "notes.md", "src/a.py"}
        assert text_of(summary).endswith("report.pdf")
        assert text_of(summary).count("Files: ") == 1


async def test_a_summary_includes_the_one_before(model: Model, player: Player) -> None:
    """The model gets the earlier summary and the newer turns; the fact lives on."""
    fork = await compose(10).compact(model)
    fork.add_canisters(converse(*["word " * 60] * 6))

    again = await fork.compact(model)

    request = text_of(player.summarizing[-1].canisters[1])
    assert request.startswith(f"Summary so far:\n\n{FACT}\n\nWhat was said then:\n\nuser: ")
    assert [each.role for each in again.canisters].count("document") == 1
    summary = find_summary(again.canisters)
    assert summary is not None
    assert summary.summarizes is not None
    assert summary.summarizes.conversation == fork.id
    assert summary.summarizes.first == fork.canisters[1].id
    assert text_of(summary) == FACT


async def test_nothing_is_summarized_twice(model: Model) -> None:
    """Without new turns, there is nothing to summarize."""
    fork = await compose(10).compact(model, keep=0)

    with pytest.raises(RequestError, match="nothing to summarize"):
        await fork.compact(model)
    pinned = compose(10)
    pinned.pin(pinned.canisters[-1])
    fork = await pinned.compact(model, keep=0)
    assert [each.role for each in fork.canisters] == ["supervisor", "document", "assistant"]
    with pytest.raises(RequestError, match="nothing to summarize"):
        await fork.compact(model)
    with pytest.raises(RequestError, match="nothing to summarize"):
        await Conversation(canisters=[UserCanister("Hello")]).compact(model)


async def test_a_failing_summary_changes_nothing(model: Model, player: Player) -> None:
    """The error says so, and keeps its class."""
    conversation = compose(10)
    before = conversation.canisters[:]

    def fail(request: Request) -> str:
        raise ProviderError(detail="Overloaded.", provider="p")

    player.answer = fail
    with pytest.raises(ProviderError, match=r"could not be summarized and is unchanged: Overl"):
        await conversation.compact(model)

    assert list(conversation.canisters) == before


async def test_the_usage_of_a_summary_counts(model: Model) -> None:
    """Like that of any answer: it is stored with the summary."""
    fork = await compose(10).compact(model)

    (account,) = measure_canisters(fork.canisters).models
    usage = usage_of(fork.canisters)
    assert account.generations == 1
    assert usage is not None
    assert (usage.input_tokens or 0) > 400
    assert account.usage == attrs.evolve(usage, native=None)


async def test_a_text_that_does_not_fit_is_summarized_in_parts(
    model: Model, player: Player
) -> None:
    """If the vendor counts more tokens than the estimate, the text is divided."""
    limit = 900

    def refuse(request: Request) -> str:
        if len(text_of(request.canisters[-1])) > limit:
            raise ContextOverflowError(model="m", detail="Too long.")
        return repeat_facts(request)

    player.answer = refuse
    fork = await compose(10).compact(model)

    summary = find_summary(fork.canisters)
    assert summary is not None
    assert summary.summarizes is not None
    assert text_of(summary) == FACT
    assert len(summary.summarizes.origins) >= 3


async def test_a_message_that_is_longer_than_the_window_is_summarized_in_parts(
    model: Model, player: Player
) -> None:
    """Its end is summarized, too."""
    conversation = Conversation(canisters=converse("word " * 6000 + FACT, "Next"))

    fork = await conversation.compact(model, keep=1)

    assert text_of(fork.canisters[0]) == FACT
    asked = "".join(text_of(each.canisters[1]) for each in player.summarizing)
    assert asked.count("word") == 6000
    assert max(player.sizes) <= 1500


async def test_a_window_that_is_too_small_for_a_summary(tmp_path: Path, player: Player) -> None:
    """The advice does not name the way that has just failed."""
    model = Model(application=load_small(tmp_path, tokens=8))

    with pytest.raises(ContextOverflowError, match='set window = "drop", or use') as caught:
        await model.make_room(compose(10))

    assert "summarize" not in caught.value.remedy


async def test_a_summary_that_is_too_long_is_cut(model: Model, player: Player) -> None:
    """Some models ignore limits."""
    player.answer = lambda request: "word " * 5000

    fork = await compose(10).compact(model)

    assert len(text_of(fork.canisters[1]).split()) < 500


# --- when it happens -----------------------------------------------------------------------------


async def test_a_full_window_is_compacted(model: Model, player: Player) -> None:
    """At first reach and not before; the fork is not compacted again at once."""
    short, full = compose(10), compose(40)

    assert await model.make_room(short) is short
    assert player.requests == []
    fork = await model.make_room(full)
    assert fork.id != full.id
    assert await model.make_room(fork) is fork


async def test_reported_usage_fills_a_window_too(model: Model) -> None:
    """The estimate may be too low; an answer says how many tokens there were."""
    origin = Origin(provider="p", model="m", usage=Usage(input_tokens=1600, output_tokens=10))
    last = [UserCanister("So?"), AssistantCanister("Yes.", origin=origin, turn_id="z")]
    turns = converse(*["cheese " * 80] * 9)
    conversation = Conversation(canisters=[*turns, *last, UserCanister("And?" + " cheese" * 80)])

    fork = await model.make_room(conversation)

    assert fork is not conversation
    assert sum(len(text_of(each)) for each in fork.canisters) > 1500  # needs an estimate
    assert last[1] in fork.canisters
    assert await model.make_room(fork) is fork


async def test_a_new_message_may_be_longer_than_its_estimate(model: Model) -> None:
    """What was not reported yet is counted as if the estimate were as wrong as it can be."""
    turns = converse(*["cheese " * 80] * 9)
    message = UserCanister("And? " + "cheese " * 80)
    attributes = (await model.access()).descriptor.attributes
    room, _ = measure_room(attributes, {})
    assert room is not None
    size = count_canister(message, attributes)
    assert size.error_tokens > 2

    def compose(reported: int) -> Conversation:
        origin = Origin(provider="p", model="m", usage=Usage(input_tokens=reported))
        last = [UserCanister("So?"), AssistantCanister("Yes.", origin=origin, turn_id="z")]
        return Conversation(canisters=[*turns, *last, message])

    # The marks around the last answer and before the next one are up to 14 tokens.
    fitting = compose(room - size.tokens - size.error_tokens - 14)
    exceeding = compose(room - size.tokens - 1)
    assert await model.make_room(fitting) is fitting
    assert await model.make_room(exceeding) is not exceeding


async def test_marks_around_answers_fill_a_window_too(model: Model) -> None:
    """The mark that ends an answer is not in its reported usage; nor are those of the next one."""
    turns = converse(*["cheese " * 80] * 9)
    room, _ = measure_room((await model.access()).descriptor.attributes, {})
    assert room is not None
    size = count_canister(UserCanister("And?"), None)
    reported = room - size.tokens - size.error_tokens
    origin = Origin(provider="p", model="m", usage=Usage(input_tokens=reported))
    last = [UserCanister("So?"), AssistantCanister("Yes.", origin=origin, turn_id="z")]
    conversation = Conversation(canisters=[*turns, *last, UserCanister("And?")])

    assert await model.make_room(conversation) is not conversation


@pytest.mark.parametrize(
    ("window", "strict"), [("stop", False), ("drop", False), ("summarize", True)]
)
async def test_nobody_else_is_compacted(
    application: Application, player: Player, window: str, strict: bool
) -> None:
    """Other ways to handle the window stay, and a strict model loses nothing."""
    model = Model(application=application, window=window, strict=strict)  # type: ignore[arg-type]
    conversation = compose(40)

    assert await model.make_room(conversation) is conversation
    assert player.requests == []


async def test_a_channel_goes_on_in_the_fork(application: Application, player: Player) -> None:
    """The question and its answer are in the fork; the run counts the summary."""
    store = MemoryStore()
    conversation = compose(40)
    conversation.save(store)
    async with AsyncChannel(
        "", application=application, conversation=conversation, store=store
    ) as channel:
        reply = await channel.ask("Do you know the facts?")

    assert reply.value == FACT
    assert channel.conversation.id != conversation.id
    assert reply.outcomes[0].readings.tokens > sum(player.sizes)
    assert max(player.sizes) <= 1500
    parent = store.read(conversation.id).canisters
    assert text_of(parent[-1]) == "Do you know the facts?"
    assert len(parent) == len(conversation) + 1
    assert len(store.read(channel.conversation.id).canisters) == len(channel.conversation)


async def test_a_run_stays_in_its_conversation(application: Application, player: Player) -> None:
    """An engine sends a summary in its requests; its log names one conversation."""
    conversation = compose(40, UserCanister("facts?"))

    outcome = await Engine("", application=application).answer(conversation)

    assert outcome.text == FACT
    assert outcome.conversation.id == conversation.id
    document = player.requests[-1].canisters[1]
    assert isinstance(document, DocumentCanister)
    assert document.summarizes is not None
    assert document.summarizes.conversation == conversation.id


# --- stores --------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    """A store."""
    return MemoryStore() if request.param == "memory" else DirectoryStore(tmp_path / "store")


async def compact_thrice(model: Model, store: ConversationStore) -> tuple[Conversation, list[str]]:
    """Return a stored conversation after three compactions, and every text that was said in it."""
    conversation = compose(10)
    said = [text_of(each) for each in conversation.canisters]
    for round_number in range(3):
        conversation.save(store)
        conversation = await conversation.compact(model, keep=2)
        more = converse(*(f"Later {round_number}.{number}" for number in range(4)))
        conversation.add_canisters(more)
        said += [text_of(each) for each in more]
    conversation.save(store)
    return conversation, said


async def test_the_whole_is_read_through_all_parents(
    model: Model, store: ConversationStore
) -> None:
    """Every message once and in order, with the summaries where they were made."""
    conversation, said = await compact_thrice(model, store)

    whole, findings = read_whole(store, store.read(conversation.id))

    assert findings == []
    summaries = [each for each in whole if each.role == "document"]
    assert [text_of(each) for each in whole if each not in summaries] == said
    assert len(summaries) == 3
    assert whole[21] is summaries[0]


async def test_what_a_parent_says_later_is_not_of_the_fork(
    model: Model, store: ConversationStore
) -> None:
    """Both go on from the point of the compaction."""
    parent = compose(10)
    parent.save(store)
    fork = await parent.compact(model)
    fork.add_canisters(converse("In the fork"))
    fork.save(store)
    parent.add_canisters(converse("In the parent"))
    parent.save(store)
    sibling = fork.fork()
    sibling.add_canisters(converse("In the sibling"))
    sibling.save(store)

    whole, _ = read_whole(store, store.read(sibling.id))

    texts = [text_of(each) for each in whole]
    assert "In the parent" not in texts
    assert texts[-4::2] == ["In the fork", "In the sibling"]
    assert len(whole) == 21 + 1 + 4


async def test_a_copied_store_has_the_whole(model: Model, store: ConversationStore) -> None:
    """With the links between all parents."""
    conversation, _ = await compact_thrice(model, store)
    target = MemoryStore()

    copy_store(store, target)

    whole, findings = read_whole(target, target.read(conversation.id))
    assert (whole, findings) == read_whole(store, store.read(conversation.id))


async def test_a_deleted_parent_is_reported(model: Model, store: ConversationStore) -> None:
    """The fork stays whole in itself."""
    conversation, _ = await compact_thrice(model, store)
    summary = find_summary(conversation.canisters)
    assert summary is not None
    assert summary.summarizes is not None
    store.delete(summary.summarizes.conversation)

    whole, findings = read_whole(store, store.read(conversation.id))

    assert whole == list(store.read(conversation.id).canisters)
    assert [each.place for each in findings] == [summary.summarizes.conversation]
    assert verify(store).findings == ()


@pytest.mark.parametrize("compacting", ["here", "there"])
async def test_after_a_synchronization_the_whole_is_in_both_stores(
    model: Model, store: ConversationStore, compacting: str
) -> None:
    """Both stores have another ending, so that the replaced part is in a fork of one of them."""
    other = MemoryStore()
    Conversation(id="both", canisters=converse("Beginning")).save(store)
    sync_stores(store, other)
    for side, name in ((store, "here"), (other, "there")):
        conversation = Conversation.restore(side, "both")
        conversation.add_canisters(converse(name, f"{name} again"))
        conversation.save(side)
        if name == compacting:
            fork = await conversation.compact(model, keep=1)
            fork.save(side)
    for _ in range(2):
        sync_stores(store, other)

    wholes = [read_whole(side, side.read(fork.id)) for side in (store, other)]

    assert wholes[0] == wholes[1]
    whole, findings = wholes[0]
    assert findings == []
    texts = [text_of(each) for each in whole if each.role == "user"]
    assert texts == ["Beginning", compacting, f"{compacting} again"]


async def test_an_incomplete_parent_is_reported(model: Model) -> None:
    """Its messages are shown, although it lacks the last one that was replaced."""
    store = MemoryStore()
    conversation = Conversation(canisters=converse("One", "Two", "Three"))
    fork = await conversation.compact(model, keep=1)
    Conversation(id=conversation.id, canisters=conversation.canisters[:2]).save(store)
    fork._unsaved_parent = None
    fork.save(store)

    whole, findings = read_whole(store, store.read(fork.id))

    assert [text_of(each) for each in whole if each.role == "user"] == ["One", "Three"]
    assert [each.place for each in findings] == [conversation.id]


async def test_a_fork_does_not_read_its_parents(model: Model, tmp_path: Path) -> None:
    """Reading a compacted conversation takes no longer after a hundred compactions."""
    store = DirectoryStore(tmp_path / "store")
    conversation, _ = await compact_thrice(model, store)
    summary = find_summary(conversation.canisters)
    assert summary is not None
    assert summary.summarizes is not None
    parent = Path(store.locate(summary.summarizes.conversation))
    (parent / "messages.jsonl").unlink()
    memory = MemoryStore()
    in_memory, _ = await compact_thrice(model, memory)
    memory._entries = {in_memory.id: memory._entries[in_memory.id]}

    assert len(DirectoryStore(tmp_path / "store").read(conversation.id).canisters) > 5
    assert len(memory.read(in_memory.id).canisters) > 5


async def test_a_parent_that_was_never_saved_is_saved_with_the_fork(
    model: Model, store: ConversationStore
) -> None:
    """Otherwise the replaced messages would be lost; both are complete."""
    conversation = compose(10)
    fork = await conversation.compact(model)
    assert list(store.survey()) == []

    fork.save(store)

    assert store.read(conversation.id).canisters == tuple(conversation.canisters)
    metadata = store.read_metadata(fork.id)
    assert metadata.parent is not None
    assert metadata.parent.identity == conversation.id


async def test_a_fork_is_stored_in_one_piece(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never listed without its summary."""
    store = DirectoryStore(tmp_path / "store")
    conversation = compose(10)
    conversation.save(store)
    fork = await conversation.compact(model)

    def fail(*arguments: object, **more: object) -> None:
        raise AssertionError("appended or created in two steps")

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryStore, "append", fail)
        patched.setattr(DirectoryStore, "create", fail)
        fork.save(store)
    fork.add_canisters(converse("Next"))
    fork.save(store)

    assert store.read(fork.id).canisters == tuple(fork.canisters)
    assert store.read(conversation.id).canisters == tuple(conversation.canisters)


async def test_pictures_of_kept_messages_stay(model: Model, store: ConversationStore) -> None:
    """Their bytes are in the store of the fork as in that of its parent."""
    picture = FileContent(data=b"%PDF-1", name="a.pdf")
    conversation = compose(10, UserCanister([picture, TextualContent("Read.")]))
    fork = await conversation.compact(model)

    fork.save(store)

    (kept,) = store.read(fork.id).canisters[-1].content[:1]
    assert isinstance(kept, FileContent)
    assert store.contents.read(kept.content_id or "") == b"%PDF-1"


async def test_a_pickled_or_copied_summary_is_equal(model: Model) -> None:
    """Through every form in which canisters travel."""
    from vibe_llms.messages.codec.canister_lines import decode_canister, encode_canister

    fork = await compose(10).compact(model)

    summary = find_summary(fork.canisters)
    assert summary is not None
    assert decode_canister(encode_canister(summary)) == summary
    assert fork.copy().canisters == fork.canisters


async def test_an_empty_summary_is_an_error(model: Model, player: Player) -> None:
    """No words cannot replace turns."""
    player.answer = lambda request: " "

    with pytest.raises(ConverseError, match="empty summary"):
        await compose(10).compact(model)
