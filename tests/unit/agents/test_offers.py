"""Models that runs may use are listed with names, abilities and prices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.runs.hosted import produce_application
from vibe_llms.agents.offers import ModelOffer, Offers, survey_ensembles, survey_offers
from vibe_llms.agents.run_specs import RunRules
from vibe_llms.application import Application
from vibe_llms.exceptions import ConverseError
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.descriptors import ModelDescriptor


@pytest.fixture
def application(tmp_path: Path) -> Application:
    """An application with two aliases, of which one names a provider that does not exist."""
    play = json.dumps(f"scripted:{tmp_path / 'script.toml'}")
    aliases = f'play = {play}\nhelper = "scripted:echo"\nlost = "nowhere:none"\n'
    (tmp_path / "none.toml").write_text(f"[aliases]\n{aliases}", encoding="utf-8")
    return produce_application(tmp_path)


def by_id(offers: Offers) -> dict[str, ModelOffer]:
    return {each.id: each for each in offers.models}


async def test_an_alias_has_the_abilities_of_its_model(application: Application) -> None:
    offers = by_id(await survey_offers(application, RunRules()))
    helper, echo = offers["helper"], offers["scripted:echo"]
    assert (helper.address, helper.is_alias, echo.is_alias) == ("scripted:echo", True, False)
    assert helper.capabilities == echo.capabilities
    assert "lost" not in offers  # it names a provider that does not exist


async def test_rules_restrict_models_and_ensembles(application: Application) -> None:
    rules = RunRules(providers=frozenset({"remote"}), ensembles=frozenset({"shop"}))
    offers = await survey_offers(application, rules)
    assert not {each for each in by_id(offers) if each.startswith("scripted:")}
    assert offers.default == "remote"
    assert survey_ensembles(application, rules) == ["shop"]


async def test_prices_are_those_of_a_million_tokens(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("genai_prices")
    address = ModelAddress("scripted", "echo")
    attributes = application.catalogue.access_attributes(address)

    async def survey(provider: str, *, refresh: bool = False) -> Sequence[ModelDescriptor]:
        if provider == "local":
            raise ConverseError(detail="No list today.")
        model = ModelDescriptor(
            provider="scripted", name="x", attributes=attributes, origin="openai:gpt-4o"
        )
        return [model] if provider == "scripted" else []

    monkeypatch.setattr(application, "survey_models", survey)
    offers = await survey_offers(application, RunRules())
    priced = by_id(offers)["scripted:x"]
    assert (priced.input_dollars, priced.output_dollars) == (2.5, 10.0)
    assert [each for each in offers.notices if each.startswith("local cannot list its models")]
