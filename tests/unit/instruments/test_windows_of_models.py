"""A conversation that exceeds the model's window goes on, as the one who asks has chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vibe_llms import Application, Engine, Model, SyncChannel
from vibe_llms.batches.channel import BatchChannel
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.events.engine import GenerationFinishedEvent
from vibe_llms.events.stream import LossEvent
from vibe_llms.exceptions import ConverseError, TranslationLossError
from vibe_llms.messages.canisters import (
    AssistantCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import text_of

_SCRIPT = """
[[responses]]
match = "Summary so far"
contents = [{ text = "They spoke at length." }]
usage = { input_tokens = 70, output_tokens = 5 }

[[responses]]
match = "user: Question"
contents = [{ text = "They spoke." }]
usage = { input_tokens = 90, output_tokens = 4 }

[[responses]]
contents = [{ text = "Yes: {input}" }]
usage = { input_tokens = 12, output_tokens = 7 }
"""


@pytest.fixture
def application(tmp_path: Path) -> Application:
    """An application whose scripted model has a window of 2,000 tokens."""
    (tmp_path / "script.toml").write_text(_SCRIPT)
    file = tmp_path / "config.toml"
    file.write_text(
        f"""
        model = 'scripted:{tmp_path / "script.toml"}'
        [[models]]
        pattern = "script"
        context_window_tokens = 2000
        """
    )
    configuration = load_configuration(
        environment={"HOME": str(tmp_path), "VIBE_LLMS_CONFIG": str(file)},
        working_directory=tmp_path,
    )
    return Application(configuration)


def _compose(exchanges: int) -> Conversation:
    """Makes a conversation in which each exchange has a little more than a hundred tokens."""
    conversation = Conversation()
    conversation.add_canister(SupervisorCanister("Be kind."))
    for number in range(exchanges):
        conversation.add_canister(UserCanister(f"Question {number} " + "word " * 50))
        conversation.add_canister(AssistantCanister(f"Answer {number} " + "word " * 50))
    conversation.add_canister(UserCanister("And now?"))
    return conversation


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """What reaches the model, request by request."""
    from vibe_llms.providers.scripted.client import ScriptedModel

    requests: list[Request] = []
    send = ScriptedModel.send

    async def watch(self: ScriptedModel, native: object, request: Request, **more: bool) -> object:
        requests.append(request)
        return await send(self, native, request, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(ScriptedModel, "send", watch)
    return requests


async def test_by_default_all_is_sent(application: Application, sent: list[Request]) -> None:
    """Nothing is left out unless somebody has said so: the vendor refuses what is too much."""
    await Model(application=application).ask(_compose(30))

    assert len(sent[0].canisters) == 62


@pytest.mark.parametrize("stream", [True, False])
async def test_the_oldest_turns_are_dropped_and_told(
    application: Application, sent: list[Request], stream: bool
) -> None:
    """The rest is sent; the response is about the whole conversation, which is as it was."""
    conversation = _compose(30)

    response = await Model(application=application, window="drop").ask(conversation, stream=stream)

    said = sent[0].canisters
    assert [text_of(said[0]), text_of(said[-1])] == ["Be kind.", "And now?"]
    assert said[1].role == "user"
    assert len(said) < 40
    assert len(conversation) == len(response.request.canisters) == 62
    (loss,) = response.losses
    assert (loss.kind, loss.path) == ("dropped", f"canisters[1:{62 - len(said) + 1}]")
    assert loss.reason.startswith(f"the {62 - len(said)} oldest canisters are left out: ")
    assert loss.reason.endswith("room for 1,500 tokens of input")


async def test_losses_of_the_rest_name_their_places_in_the_whole(
    application: Application,
) -> None:
    """What is told of a canister can be found in the conversation."""
    from vibe_llms.messages.losses import Loss, LossKind, Translation
    from vibe_llms.providers.scripted.client import ScriptedModel

    model = await application.access_model("", holder=application)
    assert isinstance(model, ScriptedModel)
    nativize = model.nativize

    def lose(request: Request, *, streaming: bool) -> Translation[object]:
        last = len(request.canisters) - 1
        loss = Loss(kind=LossKind.COERCED, path=f"canisters[{last}].content[0]", reason="so")
        return Translation(nativize(request, streaming=streaming).value, (loss,))

    model.nativize = lose  # type: ignore[method-assign,assignment]

    for window in ("drop", "summarize"):
        request = Request(canisters=_compose(30).canisters, window=window)
        response = await model.converse(request)
        assert response.losses[-1].path == "canisters[61].content[0]"


async def test_a_strict_model_drops_nothing(application: Application, sent: list[Request]) -> None:
    """Who will have all or nothing is told before anything is sent."""
    for window in ("drop", "summarize"):
        model = Model(application=application, window=window, strict=True)
        with pytest.raises(TranslationLossError, match="exceeds the model's window"):
            await model.ask(_compose(30))
        with pytest.raises(TranslationLossError):
            await model.check(_compose(30))
        assert (await model.ask(_compose(2))).text
    assert [len(request.canisters) for request in sent] == [6, 6]


async def test_the_oldest_turns_are_summarized_once(
    application: Application, sent: list[Request]
) -> None:
    """By the same model, in calls of their own whose usage is told; later turns build on it."""
    model = Model(application=application, window="summarize")
    conversation = _compose(30)

    first = await model.ask(conversation)
    conversation.add_canisters(first.canisters)
    conversation.add_canister(UserCanister("And then?"))
    again = await model.ask(conversation)

    summary = sent[-1].canisters[1]
    assert (summary.role, text_of(summary)) == ("document", "They spoke at length.")
    assert len(first.metadata.summaries) == len(sent) - 2 > 1
    assert first.metadata.summaries[0].usage is not None
    assert first.losses[0].kind == "coerced"
    assert "tokens in" in first.losses[0].reason
    assert again.metadata.summaries == ()
    assert len(conversation) == 64
    assert all(request.window == "stop" for request in sent[: len(first.metadata.summaries)])


async def test_a_summary_grows_with_what_follows_it(
    application: Application, sent: list[Request]
) -> None:
    """Where more turns have to go, the model gets its former summary and those turns alone."""
    model = Model(application=application, window="summarize")
    conversation = _compose(30)
    await model.ask(conversation)
    before = len(sent)
    for _ in range(4):
        conversation.add_canister(AssistantCanister("word " * 50))
        conversation.add_canister(UserCanister("Why? " + "word " * 50))

    response = await model.ask(conversation)

    assert len(response.metadata.summaries) == 1
    assert text_of(sent[before].canisters[-1]).startswith(
        "Summary so far:\n\nThey spoke at length."
    )
    assert "Question 0 " not in text_of(sent[before].canisters[-1])


async def test_a_model_that_summarizes_with_nothing_is_an_error(
    application: Application, tmp_path: Path
) -> None:
    """No words stand for the oldest turns in silence."""
    script = tmp_path / "script-silent.toml"
    script.write_text("[[responses]]\ncontents = []\n")

    model = Model(f"scripted:{script}", application=application, window="summarize")

    with pytest.raises(ConverseError, match=r"oldest turns. Drop them instead"):
        await model.ask(_compose(30))


async def test_the_setting_is_that_of_the_nearest(
    application: Application, sent: list[Request]
) -> None:
    """Of the request, of the model, of an engine, of the configuration."""
    model = Model(application=application, window="drop")
    assert model.request("hi").window == "drop"
    assert model.request("hi", window="stop").window == "stop"
    assert Model(application=application).request("hi").window == "stop"

    outcome = await Engine(model).answer(_compose(30))
    assert len(sent[-1].canisters) < 40
    assert [loss.kind for loss in outcome.losses] == ["dropped"]
    assert len(outcome.conversation) == 63
    await Engine(model, window="stop").answer(_compose(30))
    assert len(sent[-1].canisters) == 62
    await Engine("", application=application, window="drop").answer(_compose(30))
    assert len(sent[-1].canisters) < 40


async def test_the_log_counts_what_was_left_out(
    application: Application, sent: list[Request]
) -> None:
    """As a vendor's cache does not find the prefix of such a request."""
    events: list[Any] = []
    model = Model(application=application, window="drop")

    await Engine(model, listener=events.append).answer(_compose(30))

    (finished,) = [each for each in events if isinstance(each, GenerationFinishedEvent)]
    assert finished.omitted == 62 - len(sent[-1].canisters) > 0


async def test_a_run_counts_what_its_summaries_used(application: Application) -> None:
    """They are paid for, and limits hold them, too."""
    plain = await Engine("", application=application).answer(_compose(30))
    model = Model(application=application, window="summarize")

    outcome = await Engine(model).answer(_compose(30))

    assert plain.readings.tokens == 19
    assert outcome.readings.tokens > 19 + 94


def test_a_channel_takes_it_too(application: Application, sent: list[Request]) -> None:
    """As it takes all that an engine does."""
    with SyncChannel("", application=application, window="drop", conversation=_compose(30)) as c:
        c.ask("Now?")

    assert len(sent[-1].canisters) < 40


async def test_a_stream_tells_of_it_at_its_beginning(application: Application) -> None:
    """Whoever reads along knows what the answer does not rest on."""
    async with Model(application=application).stream(_compose(30), window="drop") as stream:
        events = [event async for event in stream]

    assert isinstance(events[0], LossEvent)


@pytest.mark.parametrize("acts", [False, True])
async def test_what_summaries_took_is_among_what_is_told(
    application: Application, sent: list[Request], acts: bool
) -> None:
    """Of a run by its outcome, of a batch by its items."""
    model = Model(application=application, window="summarize")
    channel = BatchChannel(Engine(model) if acts else model)

    [item] = [item async for item in channel.run([_compose(30).canisters])]

    assert item.usage is not None
    count = len(sent) - 1
    assert count > 1
    assert item.usage.total_output_tokens == 4 + 5 * (count - 1) + 7
