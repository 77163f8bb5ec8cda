"""Catalogue of models: find and load each provider's attribute files on demand."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import attrs

from vibe_llms.exceptions import ConfigurationError, Finding, UnknownNameError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.package_data import access_data
from vibe_llms.foundation.suggestions import find_near, find_nearest
from vibe_llms.models.addresses import ModelAddress, is_provider_name
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.folders import Overrides, ProviderFolder, read_overrides
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.models.rules import Rule


@define(kw_only=True)
class Catalogue:
    """The models of all providers. A provider's files are read at its first use.

    Attributes:
        directory: The data, with one folder for each provider; by default the shipped data.
        providers: Names of the configured providers; empty for all providers in ``directory``.
        plugin_directories: Further folders with data, by provider; they may not exist.
        overrides: The user's own attributes, the strongest last.
    """

    directory: Path = attrs.field(factory=lambda: access_data("providers"))
    providers: tuple[str, ...] = ()
    plugin_directories: Mapping[str, tuple[Path, ...]] = attrs.field(factory=dict)
    overrides: tuple[Overrides, ...] = ()
    _integrators: dict[str, ModelsIntegrator] = attrs.field(factory=dict, init=False)

    def survey_providers(self) -> tuple[str, ...]:
        """List the providers that have data about models; does not read the data."""
        if self.providers:
            return tuple(sorted(self.providers))
        shipped = (path.parent.name for path in self.directory.glob("*/attributes.toml"))
        return tuple(sorted({*shipped, *self.plugin_directories}))

    def access_integrator(self, provider: str) -> ModelsIntegrator:
        """Return the attributes of a provider's models; an unknown provider has only the user's.

        Raises:
            ConfigurationError: The files of this provider are invalid; lists all errors.
        """
        if provider not in self._integrators:
            self._integrators[provider] = self._read(provider)
        return self._integrators[provider]

    def access_attributes(self, address: ModelAddress) -> ModelAttributes:
        """Return the attributes of a model; an address without a name means the default model.

        Raises:
            ConfigurationError: The data about it are invalid.
            UnknownNameError: The provider has no default model.
        """
        return self.access_integrator(address.provider).integrate(address.name)

    def survey_models(self, provider: str) -> tuple[ModelAddress, ...]:
        """List the models that have a record, the default model first."""
        names = self.access_integrator(provider).survey_models()
        return tuple(ModelAddress(provider, name) for name in names)

    def resolve_address(
        self, text: str, *, aliases: Mapping[str, str] = MappingProxyType({})
    ) -> ModelAddress:
        """Resolve a user's input: ``provider:model``, a provider, or just a model's name.

        A model's name without a provider means the only provider that has a record or a family for
        it. Of several providers, it means the only one that lists it among its own names, or the
        only one that has an alias.

        Args:
            aliases: Names that the user has defined, and the providers or models that they mean.
                The text itself is not an alias. They are used to choose between several providers,
                and to suggest a name.

        Raises:
            UnknownNameError: No provider, or more than one, knows the model's name.
            ConfigurationError: The text is empty or invalid.
        """
        text = text.strip()
        if ":" in text or text in self.survey_providers():
            return self._complete(ModelAddress.parse(text))
        if not text:
            return ModelAddress.parse(text)
        candidates = self._find_providers(text)
        # Prefer providers with data of their own, then those with an alias.
        for is_preferred in (self._has_folder, set(aliases.values()).__contains__):
            candidates = list(filter(is_preferred, candidates)) or candidates
        if len(candidates) == 1:
            return ModelAddress(candidates[0], text)
        if candidates:
            known = tuple(f"{provider}:{text}" for provider in candidates)
            detail = f"Several providers have a model {text!r}: {', '.join(known)}."
            raise UnknownNameError(
                kind="model", name=text, known=known, detail=detail, remedy="Add the provider."
            )
        found = self.survey_providers()
        providers = sorted({*found, *(name for name in aliases if aliases[name] in found)})
        near = find_near(text, {*providers, *aliases}) or find_near(text, self._survey_names())
        matches = self._find_by_word(text, {*providers, *aliases}, aliases.values())
        suggestion = f"; did you mean {matches[0]!r}?" if matches else ""
        raise UnknownNameError(
            kind="provider or model",
            name=text,
            known=tuple(dict.fromkeys((*matches, *near, *providers))),
            detail=suggestion and f"Unknown provider or model {text!r}{suggestion}",
            remedy="Write provider:model.",
        )

    def _find_providers(self, model: str) -> list[str]:
        """List the providers that know a model.

        Raises:
            ConfigurationError: No provider knows it, and the data of one are invalid.
        """
        candidates: list[str] = []
        errors: list[ConfigurationError] = []
        for provider in self.survey_providers():
            try:
                if self.access_integrator(provider).knows(model):
                    candidates.append(provider)
            except ConfigurationError as error:
                errors.append(error)
        if errors and not candidates:
            raise errors[0]
        return candidates

    def _find_by_word(
        self, word: str, providers: Collection[str], preferred: Collection[str]
    ) -> list[str]:
        """List the models that have a word in their names, such as ``sonnet``.

        Unknown words are corrected to the nearest known one, unless they resemble a provider.
        Default models come first, then those of providers in ``preferred``.
        """
        folders = filter(self._has_folder, self.survey_providers())
        # Each model with its index among those of its provider, whose default model has index 0.
        models = [pair for folder in folders for pair in enumerate(self.survey_models(folder))]
        known_words = {part for _, model in models for part in model.name.lower().split("-")}
        word = word.lower()
        is_provider_like = find_nearest(word, providers) is not None
        if "-" not in word and word not in known_words and not is_provider_like:
            word = find_nearest(word, known_words) or word
        found = [pair for pair in models if f"-{word}-" in f"-{pair[1].name.lower()}-"]

        def rank(pair: tuple[int, ModelAddress]) -> tuple[bool, bool]:
            index, model = pair
            is_default, is_preferred = index == 0, model.provider in preferred
            return not is_default, not is_preferred

        # Do not sort by name: models of the same rank keep the order of the data.
        return [str(model) for _, model in sorted(found, key=rank)]

    def _survey_names(self) -> set[str]:
        """List the names of all models that have a record, of any provider."""
        providers = self.survey_providers()
        return {each.name for provider in providers for each in self.survey_models(provider)}

    def _has_folder(self, provider: str) -> bool:
        return is_provider_name(provider) and (self.directory / provider).is_dir()

    def _complete(self, address: ModelAddress) -> ModelAddress:
        if address.name:
            return address
        default = self.access_integrator(address.provider).access_default_model()
        return ModelAddress(address.provider, default)

    def _read(self, provider: str) -> ModelsIntegrator:
        findings: list[Finding] = []
        rules: list[Rule] = []
        default_model = ""
        names: list[str] = []
        prefixes: list[str] = []
        needs_prefix = False
        shipped = (self.directory / provider,) if is_provider_name(provider) else ()
        for directory in (*shipped, *self.plugin_directories.get(provider, ())):
            folder = ProviderFolder(directory=directory, findings=findings)
            rules += folder.read()
            default_model = folder.default_model or default_model  # a plugin's replaces ours
            names += folder.names
            prefixes += folder.prefixes
            needs_prefix = needs_prefix or folder.needs_prefix
        user_rules, user_findings = self._user_rules
        rules += user_rules
        findings += user_findings
        if findings:
            raise ConfigurationError(findings=tuple(findings))
        return ModelsIntegrator(
            provider=provider,
            rules=rules,
            default_model=default_model,
            names=tuple(names),
            prefixes=tuple(filter(None, prefixes)),
            needs_prefix=needs_prefix,
        )

    @cached_property
    def _user_rules(self) -> tuple[list[Rule], list[Finding]]:
        """Rules of the user's configuration and errors in it; the same for all providers."""
        findings: list[Finding] = []
        rules = [rule for each in self.overrides for rule in read_overrides(each, findings)]
        return rules, findings
