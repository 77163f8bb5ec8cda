"""Authorizers of plugins: made by name for a daemon, and never replaced by nobody."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from vibe_llms.application import Application
from vibe_llms.exceptions import AccessError, PluginError, ProviderFault, UnknownNameError
from vibe_llms.plugins.specification.daemons import Arrival, Authorizer, Demand
from vibe_llms.testing.contracts import AuthorizerContract

PLUGINS = Path(__file__).parents[2] / "fixtures" / "example-plugins"
TABLE = '[plugins.door]\nmodule = "gate_keeper"\nword = "walnut"\nrequests = 1\n'


def load_example() -> ModuleType:
    """Imports a plugin as the authors' page shows one."""
    specification = importlib.util.spec_from_file_location("gate", PLUGINS / "gate_keeper.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class TestGate(AuthorizerContract):
    """A stranger's plugin keeps what authorizers promise."""

    credential = "walnut"

    def produce_authorizer(self, directory: Path) -> Authorizer:
        made: Authorizer = load_example().Gate("walnut", 100)
        return made


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    """One whose configuration has the plugin."""
    file = tmp_path / "config.toml"
    file.write_text(TABLE)
    monkeypatch.setenv("VIBE_LLMS_CONFIG", str(file))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.chdir(tmp_path)
    yield Application.load()
    sys.modules.pop("gate_keeper", None)


async def test_the_application_makes_a_plugins_authorizer(application: Application) -> None:
    """With the settings of its table; what it says goes."""
    authorizer = await application.produce_authorizer("gate")
    demand = Demand(model="small", address="scripted:echo", input_tokens=1)

    grant = await authorizer.authorize(
        Arrival(method="POST", path="/", headers={}, credential="walnut")
    )
    reservation = await grant.reserve(demand)
    with pytest.raises(AccessError) as caught:
        await grant.reserve(demand)
    await reservation.release()
    again = await grant.reserve(demand)

    assert caught.value.fault is ProviderFault.QUOTA
    assert again is not None


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("gaet", UnknownNameError, "gate"),
        ("absent", PluginError, "no gate"),
        ("odd", PluginError, "it lacks authorize, close"),
    ],
)
async def test_what_cannot_be_made_is_no_authorizer(
    application: Application, name: str, error: type[Exception], said: str
) -> None:
    """The error names it, and nothing stands in its place."""
    with pytest.raises(error) as caught:
        await application.produce_authorizer(name)

    assert said in str(caught.value)
