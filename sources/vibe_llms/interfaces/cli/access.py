"""How commands get at what they work with; each function imports what it needs."""

from __future__ import annotations

import os
import sys
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
"""So many letters of an id are no word that one happens to begin with."""


def load_configuration(**command_line: Any) -> Configuration:
    """Loads the configuration; values given here win. ``None`` is not given."""
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
    """Builds the application, which asks on the terminal and shows progress there.

    Args:
        change: Change the configuration before anything is made of it.
    """
    from vibe_llms.application import Application
    from vibe_llms.interfaces.cli.consent import TerminalConsent
    from vibe_llms.interfaces.cli.progress import TerminalProgress

    # No --yes leaves it to the configuration.
    configuration = load_configuration(yes=yes or None, **command_line)
    if change is not None:
        configuration = change(configuration)
    return Application(
        configuration,
        consent=TerminalConsent(configuration.yes),
        progress=TerminalProgress(),
    )


def load_for(options: Mapping[str, Any]) -> tuple[Application, str]:
    """Builds the application for a command that asks a model, by the options that it has.

    Returns:
        It, and the address of the model, empty where the options name none.
    """
    from vibe_llms.interfaces.cli.options import compose_address

    address = compose_address(options["model"], options["provider"])
    given = {name: options.get(name) for name in ("stream", "window", "lenient", "approver")}
    application = load_application(yes=options["yes"], model=address, **given)
    tell_untrusted(application.configuration)
    return application, address or ""


def open_plugins() -> PluginManager:
    """Returns the manager of the configured plugins, which asks on the terminal; loads none."""
    from vibe_llms.interfaces.cli.consent import TerminalConsent
    from vibe_llms.plugins.manager import PluginManager

    configuration = load_configuration()
    return PluginManager(configuration=configuration, consent=TerminalConsent(configuration.yes))


def open_store(name: str = "") -> ConversationStore:
    """Opens a store of conversations; loads no plugin where it is one that ships.

    Args:
        name: What the setting ``store`` would call it; by default the one that is configured.
    """
    from vibe_llms.conversations.stores.choosing import produce_shipped

    configuration = load_configuration(store=name)
    shipped = produce_shipped(configuration.store, configuration.data_directory)
    return open_plugins().load_store(configuration.store) if shipped is None else shipped


def open_place(place: str, *, is_there: bool = False) -> ConversationStore:
    """Opens a store by what the setting ``store`` would call it, or by the path of a directory.

    Args:
        is_there: Whether a directory has to be there already, as one from which is copied.

    Raises:
        ConfigurationError: It is the URL of no store.
        StoreError: The directory is not there.
    """
    from pathlib import Path

    from vibe_llms.configuration.definitions import is_postgresql_url

    scheme, mark, _ = place.partition("://")
    if mark and not is_postgresql_url(place):  # what stands behind it may be a password
        from vibe_llms.exceptions import ConfigurationError

        rule = "use `directory`, a path, postgresql://… or a plugin's store."
        raise ConfigurationError.at("store", f"Unknown store {scheme}://…: {rule}")
    # No name of a store has a separator, so that `./backup` is a path and `backup` is a plugin's.
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
    """Opens what lists and searches conversations.

    Of the store that ships it imports neither the store nor its parsers.

    Args:
        store: The store where it is open already.
    """
    configuration = load_configuration()
    if configuration.store != DIRECTORY_STORE:
        from vibe_llms.conversations.index.reading import produce_index

        return produce_index(open_store() if store is None else store)
    from vibe_llms.conversations.index.index import ConversationIndex
    from vibe_llms.interfaces.cli.progress import TerminalProgress

    return ConversationIndex(
        configuration.data_directory / "conversations",
        configuration.cache_directory / "index.sqlite",
        progress=TerminalProgress() if sys.stderr.isatty() else None,
    )


def resolve_identity(store: ConversationStore, prefix: str) -> str:
    """Returns the id that begins so. Raises UnknownConversationError, AmbiguousIdentityError."""
    from vibe_llms.conversations.lookup import resolve

    return resolve(store, prefix)


def resolve_first(
    store: ConversationStore, word: str, otherwise: str, meant: Callable[[str], str]
) -> str:
    """Returns the id that the first of several words is, or begins.

    Fewer than four letters may as well be a word of what follows, that an id happens to begin with.

    Args:
        otherwise: The command in which all the words are no id.
        meant: Composes the command in which the word is one, from the whole id.

    Raises:
        UnknownConversationError: There is none.
        AmbiguousIdentityError: There are several, or the word may be none.
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
    """Returns the conversation in which something was last said.

    Raises:
        UnknownConversationError: There is none.
    """
    rows = open_index(store).survey(limit=1)
    if not rows:
        from vibe_llms.exceptions import UnknownConversationError

        raise UnknownConversationError(
            detail="There are no conversations yet.", remedy="`vibe chat` starts one."
        )
    return rows[0].id


def find_parts(store: ConversationStore, identities: Sequence[str]) -> list[str]:
    """Returns the conversations that are parts of others, and the parts of these."""
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
    """Returns the id that begins so; of the newest conversation where nothing was typed.

    Raises:
        UnknownConversationError: There is none.
        AmbiguousIdentityError: There are several.
    """
    return find_newest_identity(store) if prefix is None else resolve_identity(store, prefix)


def restore_conversation(store: ConversationStore, continued: str | None) -> Conversation:
    """Returns the conversation that ``--continue`` names: the newest where empty, else a new one.

    Raises:
        UnknownConversationError: There is none.
        AmbiguousIdentityError: There are several.
    """
    from vibe_llms.conversations.conversation import Conversation

    if continued is None:
        return Conversation()
    return Conversation.restore(store, find_identity(store, continued or None))


def survey_addresses(configuration: Configuration, provider: str = "") -> list[str]:
    """Lists providers, and their models that are known by name; asks nobody and loads no provider.

    Known are those that the vendor told of, else the default and those that ship with the data.

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
    """Raises UnknownNameError where no provider of this name is configured."""
    if name not in configuration.providers:
        from vibe_llms.exceptions import UnknownNameError

        known = configuration.provider_names
        raise UnknownNameError(kind="provider", name=name, known=known)


def tell_untrusted(configuration: Configuration) -> None:
    """Says on standard error that a project folder asks for something and does not get it."""
    request = configuration.trust_request
    if request is not None:
        from vibe_llms.interfaces.cli.output import note

        names = ", ".join(setting.name for setting in request.settings)
        note(f"{request.file}: ignored until you run `vibe trust` for the folder: {names}")
