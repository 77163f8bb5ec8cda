"""Models and ensembles that runs may use, for menus."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from vibe_llms.agents.run_specs import RunRules
from vibe_llms.application import Application
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.models.attributes import Capability
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.genera import Genus
from vibe_llms.plugins.missing_requirements import select_ready

_SURVEY_SECONDS: Final = 10.0
_CAPABILITIES: Final = ("images", "audio", "video", "files", "reasoning", "invocations")
_PRICED_TOKENS: Final = 1_000


@frozen(kw_only=True)
class ModelOffer:
    """A model that runs may use.

    Attributes:
        id: Name for a run's specification: an alias or an address.
        address: Address of the model.
        is_alias: Whether the name is an alias.
        capabilities: Known capabilities, such as ``images`` and ``invocations``.
        context_window_tokens: Size of the context window, if known.
        input_dollars: Price of a million input tokens in US dollars, if known.
        output_dollars: Price of a million output tokens in US dollars, if known.
    """

    id: str
    address: str
    is_alias: bool = False
    capabilities: tuple[str, ...] = ()
    context_window_tokens: int | None = None
    input_dollars: float | None = None
    output_dollars: float | None = None


@frozen(kw_only=True)
class Offers:
    """Models that runs may use.

    Attributes:
        default: Model of a run that names none; empty if there is none.
        models: Aliases first, then the models of each provider.
        notices: Providers that could not list their models.
    """

    default: str
    models: tuple[ModelOffer, ...]
    notices: tuple[str, ...] = ()


async def survey_offers(application: Application, rules: RunRules) -> Offers:
    """Return the models that runs may use.

    A provider may have further models; each may be used by its name. Lists of vendors are at most a
    day old.
    """
    configuration, plugins = application.configuration, application.plugins
    names = [
        name
        for name in configuration.providers
        if rules.providers is None or name in rules.providers
    ]
    ready = await asyncio.to_thread(select_ready, plugins, names)
    notices: list[str] = []

    async def survey(provider: str) -> Sequence[ModelDescriptor]:
        try:
            async with asyncio.timeout(_SURVEY_SECONDS):
                return await application.survey_models(provider)
        except TimeoutError:
            notices.append(f"{provider} did not list its models within {_SURVEY_SECONDS:.0f} s.")
        except ConverseError as error:
            notices.append(f"{provider} cannot list its models: {error.describe()}")
        return ()

    surveys = await asyncio.gather(*map(survey, ready))
    listed = {str(each): each for survey in surveys for each in survey}
    models = await asyncio.to_thread(_describe_all, application, listed, ready)
    return Offers(
        default=_find_default(application, rules), models=tuple(models), notices=tuple(notices)
    )


def survey_ensembles(application: Application, rules: RunRules) -> list[str]:
    """Return the names of the ensembles that runs may use."""
    configuration = application.configuration
    if rules.ensembles is not None:
        return sorted(rules.ensembles)
    return sorted({*configuration.servers, *configuration.ensembles})


def _find_default(application: Application, rules: RunRules) -> str:
    """Return the model of a run that names none; see :meth:`RunRules.complete`."""
    try:
        address = application.resolve_address("")
    except ConverseError:
        return ""
    if rules.providers is None or address.provider in rules.providers:
        return str(address)
    return next(iter(rules.providers)) if len(rules.providers) == 1 else ""


def _describe_all(
    application: Application, listed: dict[str, ModelDescriptor], providers: Sequence[str]
) -> Sequence[ModelOffer]:
    """Describe aliases and models; reads prices, which takes time at first."""
    aliases: list[ModelOffer | None] = []
    for alias in sorted(application.configuration.aliases):
        try:
            address = application.resolve_address(alias)
        except ConverseError:
            continue  # it names a provider or model that does not exist
        if address.provider in providers:
            known = listed.get(str(address)) or _describe_unlisted(application, str(address))
            aliases.append(_describe(known, alias, is_alias=True))
    models = [_describe(each, name) for name, each in listed.items()]
    return [each for each in (*aliases, *models) if each is not None]


def _describe_unlisted(application: Application, name: str) -> ModelDescriptor:
    address = application.resolve_address(name)
    attributes = application.catalogue.access_attributes(address)
    return ModelDescriptor(provider=address.provider, name=address.name, attributes=attributes)


def _describe(model: ModelDescriptor, name: str, *, is_alias: bool = False) -> ModelOffer | None:
    """Describe a model; ``None`` if it does not converse."""
    attributes = model.attributes
    if attributes.genus is not Genus.CONVERSER:
        return None
    window = attributes.access_value("context_window_tokens")
    input_dollars, output_dollars = _find_prices(model)
    return ModelOffer(
        id=name,
        address=str(model),
        is_alias=is_alias,
        capabilities=tuple(
            each
            for each in _CAPABILITIES
            if attributes.access_capability(f"supports_{each}") is Capability.YES
        ),
        context_window_tokens=window if type(window) is int else None,
        input_dollars=input_dollars,
        output_dollars=output_dollars,
    )


def _find_prices(model: ModelDescriptor) -> tuple[float | None, float | None]:
    """Return the prices of a million tokens of input and of output, for a short request."""
    from vibe_llms.messages.canisters import Usage
    from vibe_llms.telemetry.prices import Price, price_usage

    provider, name = model.price_key
    usage = Usage(input_tokens=_PRICED_TOKENS, output_tokens=_PRICED_TOKENS)
    price = price_usage(usage, provider=provider, model=name)
    parts = price.buckets if isinstance(price, Price) else ()
    rates = {part.bucket: float(part.amount / part.tokens) * 1_000_000 for part in parts}
    return rates.get("input_tokens"), rates.get("output_tokens")
