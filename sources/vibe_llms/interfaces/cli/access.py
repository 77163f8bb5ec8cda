"""Access of commands to configuration, application and stores; functions import lazily."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from vibe_llms.configuration.definitions import DIRECTORY_STORE
from vibe_llms.interfaces.cli.program import remember_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vibe_llms.application import Application
    from vibe_llms.configuration.classes import Configuration
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.conversations.index import Index
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.plugins.manager import PluginManager


_SURE_LETTERS = 4
"""Minimum length of an id's prefix that cannot be a word of text."""


def load_configuration(**command_line: Any) -> Configuration:
    """Load the configuration; values given here override it. ``None`` means not given."""
    from vibe_llms.configuration.sources import load_configuration as load

    given = {name: value for name, value in command_line.items() if value not in (None, "")}
    configuration = load(command_line=given)
    remember_names(configuration)
    return configuration


def load_application(
    *,
    yes: bool = False,
    change: Callable[[Configuration], Configuration] | None = None,
    **command_line: Any,
) -> Application:
    """Build the application; it asks and shows progress on the terminal.

    Args:
        change: Change the configuration before the application is built.
    """
    from vibe_llms.application import Application
    from vibe_llms.interfaces.cli.consent import TerminalConsent
    from vibe_llms.interfaces.cli.progress import TerminalProgress

    # without --yes, the configuration decides
    configuration = load_configuration(yes=yes or None, **command_line)
    if change is not None:
        configuration = change(configuration)
    return Application(
        configuration,
        consent=TerminalConsent(configuration.yes),
        progress=TerminalProgress(),
    )


def load_for(options: Mapping[str, Any]) -> tuple[Application, str]:
    """Build the application for a command that asks a model, from the command's options.

    Returns:
        The application and the address of the model (empty if the options name none).
    """
    from vibe_llms.interfaces.cli.option_values import compose_address

    address = compose_address(options["model"], options["provider"])
    given = {name: options.get(name) for name in ("stream", "window", "lenient", "approver")}
    application = load_application(yes=options["yes"], model=address, **given)
    tell_untrusted(application.configuration)
    return application, address or ""


def open_plugins() -> PluginManager:
    """Return the manager of the configured plugins, which asks on the terminal; load no plugin."""
    from vibe_llms.interfaces.cli.consent import TerminalConsent
    from vibe_llms.plugins.manager import PluginManager

    configuration = load_configuration()
    return PluginManager(configuration=configuration, consent=TerminalConsent(configuration.yes))


def open_store(name: str = "") -> ConversationStore:
    """Open a store of conversations; a built-in store loads no plugin.

    Args:
        name: A value of the setting ``store``; the configured one by default.
    """
    from vibe_llms.conversations.stores.choosing import produce_shipped

    configuration = load_configuration(store=name)
    shipped = produce_shipped(configuration.store, configuration.data_directory)
    return open_plugins().load_store(configuration.store) if shipped is None else shipped


def open_store_at(place: str, *, is_there: bool = False) -> ConversationStore:
    """Open a store by a value of the setting ``store`` or by the path of a directory.

    Args:
        is_there: Whether the directory must exist already, as the source of a copy.

    Raises:
        ConfigurationError: The URL is not that of a store.
        StoreError: The directory does not exist.
    """
    from pathlib import Path

    from vibe_llms.configuration.definitions import is_postgresql_url

    scheme, mark, _ = place.partition("://")
    if mark and not is_postgresql_url(place):  # the rest may contain a password
        from vibe_llms.exceptions import ConfigurationError

        rule = "use `directory`, a path, postgresql://… or a plugin's store."
        raise ConfigurationError.at("store", f"Unknown store {scheme}://…: {rule}")
    # Store names contain no separator: `./backup` is a path, `backup` a plugin's store.
    if not is_postgresql_url(place) and ("/" in place or os.sep in place or place in (".", "..")):
        from vibe_llms.conversations.stores.directory import DirectoryStore

        path = Path(place).expanduser()
        if is_there and not path.exists():
            from vibe_llms.exceptions import StoreError

            remedy = "Name a store's folder, or `directory` for your own."
            raise StoreError(path=place, detail=f"{place} does not exist.", remedy=remedy)
        return DirectoryStore(path)
    return open_store(place)


def open_index(store: ConversationStore | None = None) -> Index:
    """Open the index that lists and searches conversations.

    For the built-in store, neither the store nor its parsers are imported.

    Args:
        store: The store if it is already open.
    """
    configuration = load_configuration()
    if configuration.store != DIRECTORY_STORE:
        return (open_store() if store is None else store).index
    from vibe_llms.conversations.index.index import ConversationIndex
    from vibe_llms.interfaces.cli.progress import TerminalProgress

    return ConversationIndex.open_cached(
        configuration.data_directory / "conversations",
        configuration.cache_directory,
        progress=TerminalProgress(),
    )


def resolve_identity(store: ConversationStore, prefix: str) -> str:
    """Resolve the prefix of an id. Raises UnknownConversationError, AmbiguousIdentityError."""
    from vibe_llms.conversations.lookup import resolve

    return resolve(store, prefix)


def resolve_first(
    store: ConversationStore, word: str, otherwise: str, meant: Callable[[str], str]
) -> str:
    """Resolve the first of several words as an id or the prefix of one.

    A prefix of fewer than four letters is ambiguous: it may also be a word of the text.

    Args:
        otherwise: The command to suggest if none of the words is an id.
        meant: Composes the command to suggest if the word is an id, from the whole id.

    Raises:
        UnknownConversationError: No id matches.
        AmbiguousIdentityError: Several ids match, or the word may also be text.
    """
    from vibe_llms.exceptions import AmbiguousIdentityError, UnknownConversationError

    try:
        identity = resolve_identity(store, word)
    except (AmbiguousIdentityError, UnknownConversationError) as error:
        error.remedy = f"{error.remedy} If it is not an id: {otherwise}"
        raise
    if len(word.strip()) < _SURE_LETTERS and identity != word.strip().lower():
        raise AmbiguousIdentityError(
            identity=word,
            candidates=(identity,),
            detail=f"{word!r} is the start of the id {identity}, but may also be text.",
            remedy=f"If you mean the id: {meant(identity)}; if not: {otherwise}",
        )
    return identity


def find_newest_identity(store: ConversationStore) -> str:
    """Return the id of the conversation with the most recent message.

    Raises:
        UnknownConversationError: There are no conversations.
    """
    rows = open_index(store).survey(limit=1)
    if not rows:
        from vibe_llms.exceptions import UnknownConversationError

        raise UnknownConversationError(
            detail="There are no conversations yet.", remedy="`vibe chat` starts one."
        )
    return rows[0].id


def find_parts(store: ConversationStore, identities: Sequence[str]) -> list[str]:
    """Return the conversations that are parts of others, and their own parts."""
    from vibe_llms.conversations.tags import PART_TAG

    parts: dict[str, list[str]] = {}
    for row in open_index(store).survey(limit=None, parts=True):
        for tag in row.tags:
            if tag.startswith(PART_TAG):
                parts.setdefault(tag.removeprefix(PART_TAG), []).append(row.id)
    found: list[str] = []
    pending = list(identities)
    while pending:
        own = [each for each in parts.pop(pending.pop(), ()) if each not in identities]
        found += own
        pending += own
    return found


def find_identity(store: ConversationStore, prefix: str | None) -> str:
    """Resolve the prefix of an id; an empty one means the newest conversation.

    Raises:
        UnknownConversationError: No id matches.
        AmbiguousIdentityError: Several ids match.
    """
    return find_newest_identity(store) if prefix is None else resolve_identity(store, prefix)


def restore_conversation(store: ConversationStore, continued: str | None) -> Conversation:
    """Return the conversation that ``--continue`` names: the newest if empty, a new one if absent.

    Raises:
        UnknownConversationError: No id matches.
        AmbiguousIdentityError: Several ids match.
    """
    from vibe_llms.conversations.conversation import Conversation

    if continued is None:
        return Conversation()
    return Conversation.restore(store, find_identity(store, continued or None))


def survey_addresses(configuration: Configuration, provider: str = "") -> list[str]:
    """List providers and their models known by name; make no requests and load no provider.

    The known models are those that the vendor listed, else the default and the built-in data.

    Args:
        provider: Only this one; empty for all.
    """
    from vibe_llms.foundation.package_data import access_data
    from vibe_llms.models.folders import read_names
    from vibe_llms.providers.surveys import access_survey

    addresses: list[str] = []
    for name in (provider,) if provider else configuration.providers:
        entry = configuration.providers.get(name)
        default = str(entry.settings.get("model", "")) if entry else ""
        folder = access_data("providers", name)
        survey = access_survey(configuration.cache_directory / "providers" / name)
        told = [model.name for model in survey.models] if survey else []
        models = told or [default, *read_names(folder)]
        addresses += [name, *(f"{name}:{model}" for model in dict.fromkeys(models) if model)]
    return addresses


def require_provider(configuration: Configuration, name: str) -> None:
    """Raise UnknownNameError if no provider of this name is configured."""
    if name not in configuration.providers:
        from vibe_llms.exceptions import UnknownNameError

        known = configuration.provider_names
        raise UnknownNameError(kind="provider", name=name, known=known)


def tell_untrusted(configuration: Configuration) -> None:
    """Warn on standard error that settings of an untrusted project folder are ignored."""
    request = configuration.trust_request
    if request is not None:
        from vibe_llms.interfaces.cli.output import note

        names = ", ".join(setting.name for setting in request.settings)
        note(f"{request.file}: ignored until you run `vibe trust` for the folder: {names}")
