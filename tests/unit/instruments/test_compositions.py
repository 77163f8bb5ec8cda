"""Instruments go together however one puts them: synchronous ones are those behind them."""

from __future__ import annotations

from typing import Any

import pytest

from vibe_llms import (
    Application,
    AsyncChannel,
    BatchChannel,
    Engine,
    Model,
    SyncBatchChannel,
    SyncChannel,
    SyncEngine,
    SyncModel,
    ToolChannel,
    invocable,
)
from vibe_llms.configuration.sources import load_configuration

MODELS = ("an address", "a model", "a synchronous model")


@pytest.fixture
def application(tmp_path: Any) -> Application:
    """Nothing of the user's own."""
    return Application(
        load_configuration(environment={"HOME": str(tmp_path)}, working_directory=tmp_path)
    )


def produce_model(what: str, application: Application) -> Any:
    """Makes what a model can be given as."""
    kinds: dict[str, Any] = {
        "an address": lambda: "scripted:echo",
        "a model": lambda: Model("scripted:echo", application=application),
        "a synchronous model": lambda: SyncModel("scripted:echo", application=application),
    }
    return kinds[what]()


@invocable(effect="pure")
def look(place: str) -> str:
    """Looks."""
    return place


@pytest.mark.parametrize("what", MODELS)
def test_what_is_synchronous_takes_any_model(what: str, application: Application) -> None:
    """Engines, channels and batches, in scripts and notebooks."""
    model = produce_model(what, application)

    engine = SyncEngine(model, application=application)
    channel: SyncChannel[str] = SyncChannel(model, application=application)
    assert engine.answer("Hi").text == "Hi"
    assert channel.ask("Hi").text == "Hi"
    with SyncBatchChannel(engine) as batch:
        assert [item.value for item in batch.run(["a", "b"], ordered=True)] == ["a", "b"]
    if what != "an address":
        with SyncBatchChannel(model) as answers:
            assert [item.value for item in answers.run(["a"])] == ["a"]


@pytest.mark.parametrize("what", MODELS)
async def test_what_is_asynchronous_takes_any_model(what: str, application: Application) -> None:
    """The same in an event loop, where nothing may wait for itself."""
    model = produce_model(what, application)
    tool = ToolChannel(model, name="echo", description="Repeats.", application=application)

    engine = Engine(model, [tool, look], application=application)
    channel: AsyncChannel[str] = AsyncChannel(model, application=application)

    assert (await engine.answer("Hi")).text == "Hi"
    assert (await channel.ask("Hi")).text == "Hi"
    batch = BatchChannel(SyncEngine(model, application=application))
    assert [item.value async for item in batch.run(["a"])] == ["a"]
    await application.close()


@pytest.mark.parametrize("make", [Engine, SyncEngine, AsyncChannel, SyncChannel])
@pytest.mark.parametrize("given", [7, object(), Engine("scripted:echo")])
def test_what_is_no_model_is_refused_at_once(make: Any, given: object) -> None:
    """The error says what is wanted, where the mistake was made."""
    with pytest.raises(TypeError, match="Expected a model"):
        make(given)


async def test_one_tool_needs_no_list(application: Application) -> None:
    """A function that stands alone is the one tool that there is."""
    engine = Engine("scripted:echo", tools=look, application=application)
    channel: AsyncChannel[str] = AsyncChannel("scripted:echo", tools=look, application=application)

    assert [invoker.name for invoker in await engine.ensembles[0].survey()] == ["look"]
    assert (await channel.ask("Hi")).text == "Hi"
    await application.close()
