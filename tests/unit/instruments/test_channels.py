"""A model, a prompt, a parser and the state of a conversation, put together."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from support.runs.acting import invoke, say, script
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.engine.states import Reason, State
from vibe_llms.exceptions import ConverseError, ParseError, RequestError
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.instruments.channels.asynchronous import AsyncChannel
from vibe_llms.instruments.channels.composing import Composing
from vibe_llms.instruments.channels.synchronous import SyncChannel
from vibe_llms.instruments.channels.tools import ToolChannel
from vibe_llms.instruments.engines import Engine, SyncEngine
from vibe_llms.instruments.models import SyncModel
from vibe_llms.instruments.parsers.modes import Mode
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.instruments.prompts import Prompt
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import allow
from vibe_llms.messages.canisters import AnyCanister, SupervisorCanister, UserCanister
from vibe_llms.messages.views import text_of


@attrs.frozen
class City:
    """A place where many live."""

    name: str
    people: int


class Template(Composing):
    """Says the same thing of any place."""

    @property
    def variables(self) -> frozenset[str]:
        return frozenset({"place"})

    def compose(self, /, **values: Any) -> Sequence[AnyCanister]:
        return (SupervisorCanister("Be brief."), UserCanister(f"What of {values['place']}?"))


PARIS = '{"name": "Paris", "people": 2102650}'
USAGE = {"input_tokens": 10, "output_tokens": 5}


def weather(place: str) -> str:
    """Tells the weather at a place."""
    return f"sunny in {place}"


def list_roles(conversation: Conversation) -> str:
    """Returns the first letters of who said something."""
    return "".join(canister.role[0] for canister in conversation.canisters)


async def test_what_was_said_before_is_part_of_what_is_asked() -> None:
    """A channel keeps the conversation; the one that it began with stays as it was."""
    given = Conversation(canisters=[SupervisorCanister("Be kind.")])
    channel = AsyncChannel(script([say("Hello.")], [say("Again.")]), conversation=given)

    first = await channel.ask("Hi")
    second = await channel.ask("Hi again")

    assert (first.value, second.value) == ("Hello.", "Again.")
    assert list_roles(channel.conversation) == "suaua"
    assert list_roles(first.conversation) == "sua"
    assert len(given) == 1


async def test_a_prompt_is_filled_and_a_parser_makes_the_value() -> None:
    """Instructions that are there already are not said again."""
    channel = AsyncChannel(script([say(PARIS)]), prompt=Template(), parser=City)

    reply = await channel.ask(place="Paris")
    await channel.ask(place="Rome")
    await channel.ask("And Paris again?")

    assert reply.value == City("Paris", 2102650)
    assert reply.choice is not None
    assert reply.choice.mode is Mode.NATIVE
    assert [
        text_of(each)[:9] for each in channel.conversation.canisters if each.role != "assistant"
    ] == [
        "Be brief.",
        "What of P",
        "What of R",
        "And Paris",
    ]


async def test_a_prompt_can_be_its_text() -> None:
    """Its variables are checked before anything is asked."""
    channel = AsyncChannel("scripted:echo", prompt="What of {{ place }}?")

    reply = await channel.ask(place="Paris")

    assert reply.value == "What of Paris?"
    with pytest.raises(RequestError, match="'place' is missing"):
        await channel.ask(city="Rome")
    assert len(channel.conversation) == 2
    await channel.close()


def test_what_a_prompt_says_of_its_values_is_what_a_tool_takes() -> None:
    """Its schema, where it has one; else texts."""
    described = Prompt("{{ count }}", schema={"properties": {"count": {"type": "integer"}}})
    tools = [
        ToolChannel("scripted:echo", name="count", description="Counts.", prompt=prompt)
        for prompt in (described, "{{ what }} {{ why | default('') }}")
    ]

    assert tools[0].invoker.schema == {"properties": {"count": {"type": "integer"}}}
    assert tools[1].invoker.schema == {
        "type": "object",
        "properties": {"what": {"type": "string"}, "why": {"type": "string"}},
        "required": ["what"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("mode", ["native", "prompt"])
async def test_an_answer_that_does_not_fit_is_mended_in_the_conversation(mode: Any) -> None:
    """What all of it used is known."""
    model = script([say('{"name": "Paris"}')], [say(PARIS)], usage=USAGE)
    channel = AsyncChannel(model, parser=Parser(City, mode=mode))

    reply = await channel.ask("Paris?")

    roles = "uaua" if mode == "native" else "suaua"
    assert reply.value == City("Paris", 2102650)
    assert list_roles(channel.conversation) == roles
    assert "answer.people: is required" in text_of(channel.conversation.canisters[-2])
    assert reply.usage is not None
    assert reply.usage.output_tokens == 10


async def test_by_tool_the_answer_ends_the_run() -> None:
    """What does not fit is refused within the run; other tools can be used before."""
    model = script(
        [invoke("weather", place="Paris")],
        [invoke("City", "c1", name="Paris")],
        [invoke("City", "c2", name="Paris", people=2102650)],
    )
    channel = AsyncChannel(model, parser=Parser(City, mode="tool"), tools=[weather])

    reply = await channel.ask("Paris?")

    assert reply.value == City("Paris", 2102650)
    assert len(reply.outcomes) == 1
    assert list_roles(channel.conversation) == "uiririr"
    assert "arguments.people: is required" in text_of(channel.conversation.canisters[-3])


async def test_after_so_many_attempts_it_is_an_error() -> None:
    """The conversation is kept, and can go on."""
    channel = AsyncChannel(script([say("no")]), parser=Parser(City, attempts=2))

    with pytest.raises(ParseError, match="after 2 attempts"):
        await channel.ask("Paris?")

    assert list_roles(channel.conversation) == "uaua"


async def test_a_run_that_waits_is_resumed_with_its_approvals() -> None:
    """Until then there is no value, and the reply says why."""
    tool = produce_invoker(weather, needs_approval=True)
    model = script([invoke("weather", place="Rome")], [say("Sunny.")])
    channel = AsyncChannel(model, tools=[tool])

    waiting = await channel.ask("Rome?")
    reply = await channel.resume(*map(allow, waiting.requests))

    assert waiting.outcome.state is State.AWAIT
    assert waiting.is_resumable
    assert not waiting.has_value
    with pytest.raises(ParseError, match="1 invocations await approval"):
        _ = waiting.value
    assert reply.value == "Sunny."
    assert list_roles(channel.conversation) == "uira"


async def test_a_limit_is_no_error_and_the_run_goes_on_after_it() -> None:
    """It says which limit it was."""
    model = script([invoke("weather", place="Rome")], [say("Sunny.")])
    channel = AsyncChannel(model, tools=[weather], limits=Limits(run_steps=1))

    stopped = await channel.ask("Rome?")
    reply = await channel.resume()

    assert stopped.outcome.reason is Reason.LIMIT
    with pytest.raises(ParseError, match="run_steps = 1 was reached"):
        _ = stopped.value
    assert reply.value == "Sunny."


async def test_after_an_error_what_was_asked_can_be_asked_again() -> None:
    """Without being said twice."""
    model = script([say("Hello.")], fault={"kind": "overloaded"})
    channel = AsyncChannel(model)

    with pytest.raises(ConverseError):
        await channel.ask("Hi")
    with pytest.raises(ConverseError):
        await channel.resume()

    assert list_roles(channel.conversation).count("u") == 1


async def test_a_fork_goes_its_own_way() -> None:
    """From the same past, with the same model."""
    channel = AsyncChannel(script([say("One.")], [say("Two.")]))
    await channel.ask("Hi")

    fork = channel.fork()
    again = channel.fork(0)
    replies = await asyncio.gather(fork.ask("And?"), channel.ask("Or?"), again.ask("Hi"))

    assert [reply.value for reply in replies] == ["Two.", "Two.", "One."]
    assert len({reply.conversation.id for reply in replies}) == 3
    assert text_of(fork.conversation.canisters[-2]) == "And?"


async def test_questions_to_one_channel_wait_for_each_other() -> None:
    """A conversation is one after the other."""
    channel = AsyncChannel(script([say("One.")], [say("Two.")], [say("Three.")]))

    replies = await asyncio.gather(*(channel.ask(str(number)) for number in range(3)))

    assert [reply.value for reply in replies] == ["One.", "Two.", "Three."]
    assert list_roles(channel.conversation) == "uauaua"


async def test_what_is_said_is_stored_as_it_is_said() -> None:
    """In whatever store the channel is given."""
    store = MemoryStore()
    async with AsyncChannel(script([say("Hello.")]), store=store, tools=[weather]) as channel:
        await channel.ask("Hi")

    restored = Conversation.restore(store, channel.conversation.id)
    assert list_roles(restored) == "ua"


async def test_what_cannot_be_asked_is_refused() -> None:
    """Nothing; variables without a prompt; a schema beside the parser."""
    channel = AsyncChannel(script([say("Hello.")]))

    with pytest.raises(RequestError, match="question is missing"):
        await channel.ask()
    with pytest.raises(RequestError, match="no prompt for place"):
        await channel.ask(place="Rome")
    with pytest.raises(TypeError, match=r"Unknown setting 'aprover'.*did you mean 'approver'"):
        AsyncChannel("scripted:echo", aprover=None)
    with pytest.raises(RequestError, match="neither a schema"):
        AsyncChannel(script([say("x")]), schema={})


async def test_the_synchronous_face_works_inside_a_running_loop_and_from_threads() -> None:
    """As in a notebook."""
    with SyncChannel(script([say(PARIS)]), parser=City, tools=[weather]) as channel:
        here = channel.ask("Paris?")
        there = await asyncio.gather(
            *(asyncio.to_thread(channel.fork().ask, "Paris?") for _ in range(3))
        )
        assert channel.resume().value == here.value
        assert list_roles(channel.conversation) == "ua"

    assert {reply.value for reply in (here, *there)} == {City("Paris", 2102650)}


def test_the_synchronous_face_outlives_event_loops() -> None:
    """One after the other, with the same channel."""
    channel = SyncChannel(script([say("Hello.")]))

    async def ask() -> str:
        return channel.ask("Hi").value

    assert asyncio.run(ask()) == asyncio.run(ask()) == channel.ask("Hi").value == "Hello."
    channel.close()


async def test_a_channel_is_a_tool_of_another_model() -> None:
    """Its prompt's variables are the arguments, its parser's value is the result."""
    inner = script([say(PARIS)], usage=USAGE)
    atlas = ToolChannel(
        inner, name="atlas", description="Knows cities.", prompt=Template(), parser=City
    )
    engine = Engine(
        script(
            [invoke("atlas", "a", place="Paris"), invoke("atlas", "b", place="Rome")], [say("Big.")]
        ),
        tools=[atlas],
    )

    outcome = await engine.answer("Is Paris big?")

    results = [each for each in outcome.canisters if each.role == "result"]
    assert outcome.text == "Big."
    assert [text_of(each) for each in results] == ['{"name":"Paris","people":2102650}'] * 2
    assert atlas.usage is not None
    assert atlas.usage.output_tokens == 10
    assert atlas.invoker.schema == {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
        "additionalProperties": False,
    }


async def test_channels_invoke_channels_only_so_deeply() -> None:
    """What would be too deep is not asked, and the model that asked is told why."""
    store = MemoryStore()
    inner = ToolChannel(script([say("Deep.")]), name="inner", description="Is asked.", depth=1)
    outer = ToolChannel(
        script([invoke("inner", text="Hi")], [say("Shallow.")]),
        name="outer",
        description="Asks inner.",
        tools=[inner],
        store=store,
    )
    model = script([invoke("outer", text="Hi")], [say("So.")])

    await Engine(model, tools=[outer]).answer("Hi")
    alone = await Engine(script([invoke("inner", text="Hi")], [say("So.")]), [inner]).answer("Hi")

    (identity,) = store.survey()
    refused = Conversation.restore(store, identity).canisters[2]
    assert "nested 2 deep, but at most 1 are allowed" in text_of(refused)
    assert text_of(alone.canisters[1]) == "Deep."


async def test_a_tool_that_comes_to_nothing_says_so() -> None:
    """An approval that nobody can give there, a limit, an error."""
    careful = produce_invoker(weather, needs_approval=True)
    inner = script([invoke("weather", place="Rome")])
    told = []
    for settings in ({"tools": [careful]}, {"tools": [weather], "limits": Limits(run_steps=1)}):
        tool = ToolChannel(inner, name="ask", description="Asks.", **settings)  # type: ignore[arg-type]
        outer = script([invoke("ask", text="Rome?")], [say("Sorry.")])
        outcome = await Engine(outer, tools=[tool]).answer("Rome?")
        told.append(text_of(outcome.canisters[1]))

    assert told[0] == "ask failed: no approver is set for weather."
    assert "run_steps = 1 was reached" in told[1]


async def test_an_approval_answers_once_though_an_answer_is_mended() -> None:
    """What was allowed for one call does not allow the same call of the run that mends."""
    paid: list[str] = []

    def pay(place: str) -> str:
        """Pays at a place."""
        paid.append(place)
        return "paid"

    call = invoke("pay", place="Rome")
    tool = produce_invoker(pay, needs_approval=True)
    model = script([call], [say("Paid.")], [call], [say(PARIS)])
    channel = AsyncChannel(model, tools=[tool], parser=Parser(City, mode="prompt"))

    waiting = await channel.ask("Pay!")
    again = await channel.resume(*map(allow, waiting.requests))

    assert paid == ["Rome"]
    assert not again.has_value
    assert [request.name for request in again.requests] == ["pay"]


@pytest.mark.parametrize("is_used", [False, True])
@pytest.mark.parametrize("face", [SyncChannel, AsyncChannel])
@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda channel: pickle.loads(pickle.dumps(channel))]
)
def test_a_channel_can_be_copied_and_pickled(duplicate: Any, face: Any, is_used: bool) -> None:
    """Whole, with its prompt, its parser and its tools; before it was used, and after."""

    def ask(channel: Any, place: str) -> Any:
        asked = channel.ask(place=place)
        return asked if isinstance(channel, SyncChannel) else asyncio.run(asked)

    prompt = Prompt('{"name": "{{ place }}", "people": 1}')
    channel = face("scripted:echo", prompt=prompt, parser=City, tools=[weather])
    if is_used:
        ask(channel, "Paris")
    before = len(channel.conversation)

    copied = duplicate(channel)
    reply = ask(copied, "Rome")

    assert reply.value == City("Rome", 1)
    assert len(copied.conversation) == len(reply.conversation) > before
    assert len(channel.conversation) == before
    assert pickle.loads(pickle.dumps(reply)).value == reply.value == copy.deepcopy(reply).value


def test_an_open_channel_can_be_pickled() -> None:
    """What it has connected stays; the other connects its own."""
    with SyncChannel("scripted:echo", tools=[weather]) as channel:
        channel.ask("one")
        taken = pickle.loads(pickle.dumps(channel))

        assert taken.ask("two").value == "two"


def test_what_a_channel_is_made_of_can_be_copied_and_pickled() -> None:
    """Models and engines that were used, parsers and prompts."""
    parser, prompt = Parser(City, name="city"), Prompt("{{ a }}", system="Be brief.")
    with SyncModel("scripted:echo") as model, SyncEngine("scripted:echo") as engine:
        model.ask("one")
        engine.answer("one")
        for duplicate in (copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
            assert duplicate(model).ask("two").text == "two"
            assert duplicate(engine).answer("two").text == "two"
            assert duplicate(parser).read(PARIS) == City("Paris", 2102650)
            assert duplicate(parser).name == "city"
            composed = duplicate(prompt).compose(a="two")
            assert [text_of(each) for each in composed] == ["Be brief.", "two"]


_FIRST, _FULL = [invoke("weather", place="Paris")], invoke("City", name="Paris", people=2102650)


def survey_names(partials: list[Any]) -> list[Any]:
    """Returns what was seen of the names, as it grew."""
    names = [partial.name for partial in partials]
    return [name for name in dict.fromkeys(names) if name is not ABSENT]


@pytest.mark.parametrize(
    ("mode", "last"), [("native", say(PARIS)), ("tool", _FULL), ("prompt", say(PARIS))]
)
async def test_what_arrives_of_a_value_is_shown_behind_calls_of_tools(mode: Any, last: Any) -> None:
    """In parts, in order, and the value last; by a channel and by an engine that is open."""
    parser = Parser(City, mode=mode)
    channel = AsyncChannel(script(_FIRST, [last]), parser=parser, tools=[weather])

    async with channel.follow("Paris?") as following:
        *partials, value = [each async for each in following]
        reply = await following.reply()
    async with (
        Engine(script(_FIRST, [last]), [weather]) as engine,
        engine.follow("Paris?", parser) as followed,
    ):
        *others, other = [each async for each in followed]

    assert value == other == reply.value == City("Paris", 2102650)
    for seen in (survey_names(partials), survey_names(others)):
        assert len(seen) > 1
        assert seen[-1] == "Paris"
        assert all("Paris".startswith(name) for name in seen)
    assert list_roles(reply.conversation)[-4:] in ("uira", "irir")
    assert len(channel.conversation) == len(reply.conversation)


async def test_what_arrives_begins_anew_where_an_answer_is_mended() -> None:
    """The first one is shown, too, for nobody knows yet that it will not fit."""
    model = script([say('{"name": "Rome", "people": "many"}')], [say(PARIS)])
    channel = AsyncChannel(model, parser=City)

    async with channel.follow("Paris?") as following:
        *partials, value = [each async for each in following]

    assert survey_names(partials)[-1] == "Paris"
    assert "Rome" in survey_names(partials)
    assert value == City("Paris", 2102650)


async def test_leaving_what_is_followed_stops_the_run() -> None:
    """What had arrived is in the conversation, and the channel can be asked again."""
    channel = AsyncChannel(script([say(PARIS)], [say(PARIS)]), parser=City)

    async with channel.follow("Paris?") as following:
        async for _ in following:
            break
    with pytest.raises(ConverseError, match="closed before"):
        await following.reply()

    assert list_roles(channel.conversation) == "ua"
    assert text_of(channel.conversation.canisters[-1]) != PARIS
    assert (await channel.ask("Again?")).value == City("Paris", 2102650)


async def test_a_run_that_waits_has_no_value_to_follow() -> None:
    """The reply says what it waits for; an error of the run is raised."""
    tool = produce_invoker(weather, needs_approval=True)
    channel = AsyncChannel(script(_FIRST, [say(PARIS)]), parser=City, tools=[tool])

    async with channel.follow("Paris?") as following:
        assert [each async for each in following] == []
        waiting = await following.reply()
    failing = AsyncChannel(script([say("no")]), parser=Parser(City, attempts=1))

    assert [request.name for request in waiting.requests] == ["weather"]
    async with failing.follow("Paris?") as following:
        with pytest.raises(ParseError):
            await following.value()
    with pytest.raises(RequestError, match="Pass a parser"):
        async with AsyncChannel(script([say("x")])).follow("Paris?"):
            pass


def test_synchronous_code_follows_channels_and_engines() -> None:
    """With a plain loop."""
    with (
        SyncChannel(script(_FIRST, [say(PARIS)]), parser=City, tools=[weather]) as channel,
        channel.follow("Paris?") as following,
    ):
        *partials, value = following
        assert following.reply().value == value == City("Paris", 2102650)
    with (
        SyncEngine(script(_FIRST, [say(PARIS)]), [weather]) as engine,
        engine.follow("Paris?", City) as followed,
    ):
        assert followed.value() == City("Paris", 2102650)

    assert survey_names(partials)[-1] == "Paris"
