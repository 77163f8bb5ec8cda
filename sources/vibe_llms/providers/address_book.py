"""Addresses of models by the names that callers use, and those that the operator has configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.exceptions import UnknownNameError
from vibe_llms.providers.client_pool import evict_oldest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vibe_llms.configuration.classes import Configuration
    from vibe_llms.models.addresses import ModelAddress
    from vibe_llms.models.catalogue import Catalogue
    from vibe_llms.models.genera import Genus
    from vibe_llms.providers.interfaces import Provider


class AddressBook:
    """Resolves the names of models, with a cache of recent names.

    Args:
        configuration: Has the aliases and the default models.
        access_catalogue: Returns the catalogue, for names that only one provider knows.
    """

    def __init__(
        self, configuration: Configuration, access_catalogue: Callable[[], Catalogue]
    ) -> None:
        self._configuration = configuration
        self._access_catalogue = access_catalogue
        self._addresses: dict[str, ModelAddress] = {}
        self._call_addresses: dict[tuple[Genus, str], ModelAddress] = {}
        self._configured: frozenset[str] | None = None  # set by `restrict`

    def __len__(self) -> int:
        return len(self._addresses)

    def find(self, name: str) -> ModelAddress | None:
        """Return the address of a name that was resolved before; else ``None``."""
        return self._addresses.get(name)

    def find_call(self, genus: Genus, name: str) -> ModelAddress | None:
        """Return the address of a name of a genus that was resolved before; else ``None``."""
        return self._call_addresses.get((genus, name))

    def resolve(self, name: str = "") -> ModelAddress:
        """Return the address of a converser; empty for the configured one."""
        if (cached := self._addresses.get(name)) is not None:  # fast path for each request
            return cached
        from vibe_llms.models.addresses import ModelAddress

        configuration = self._configuration
        text = configuration.follow_aliases((name or configuration.model).strip())
        if ":" not in text and text not in configuration.providers:
            return self._access_catalogue().resolve_address(text, aliases=configuration.aliases)
        resolved = ModelAddress.parse(self._add_default_model(text))
        evict_oldest(self._addresses)
        self._addresses[name] = resolved
        return resolved

    def resolve_call(self, genus: Genus, name: str) -> ModelAddress:
        """Return the address of a model of a genus; empty for the configured one."""
        from vibe_llms.models.addresses import ModelAddress

        resolved = self._call_addresses.get((genus, name))
        if resolved is None:
            configuration = self._configuration
            named = name.strip() or configuration.find_default(genus)
            text = configuration.follow_aliases(named)
            if ":" in text or text in configuration.providers:
                resolved = ModelAddress.parse(text)  # without the provider's default converser
            else:
                resolved = self.resolve(text)
            evict_oldest(self._call_addresses)
            self._call_addresses[genus, name] = resolved
        return resolved

    def restrict(self, named: Iterable[str]) -> None:
        """Allow files only if the operator has configured them; see ``Application.restrict``."""
        configuration = self._configuration
        # The name of a provider is the address of its configured model.
        providers = configuration.providers
        addresses = (configuration.model, *configuration.aliases, *providers, *named)
        without_aliases = map(configuration.follow_aliases, addresses)
        self._configured = frozenset(map(self._add_default_model, without_aliases))

    @property
    def is_restricted(self) -> bool:
        """True after :meth:`restrict`."""
        return self._configured is not None

    def ensure_configured(self, address: ModelAddress, provider: Provider) -> None:
        """Refuse a file that the operator has not configured. Raises UnknownNameError."""
        if self._configured is None or str(address) in self._configured:
            return
        names_file = getattr(provider, "names_file", None)
        if names_file is not None and names_file(address.name):
            raise UnknownNameError(
                kind="model",
                name=str(address),
                remedy="A path cannot be a model here. The operator can name it in [aliases].",
            )

    def _add_default_model(self, text: str) -> str:
        """Complete an address without a model by the provider's configured model."""
        entry = self._configuration.providers.get(text)
        model = "" if entry is None else entry.settings.get("model", "")
        return f"{text}:{model}" if model else text
