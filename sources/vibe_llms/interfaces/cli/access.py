"""Open the configuration, the application and stores for commands; functions import lazily."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from vibe_llms.configuration.definitions import DIRECTORY_STORE
from vibe_llms.foundation.files import expand_home
from vibe_llms.interfaces.cli.program import remember_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vibe_llms.application import Application
    from vibe_llms.configuration.classes import Configuration
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.conversations.index import Index
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.plugins.manager import PluginManager


_CERTAIN_LETTERS = 4
"""Minimum length of an id's prefix that is not mistaken for a word of text."""


def load_configuration(**command_line: Any) -> Configuration:
    """Load the configuration; the arguments override it, except ``None`` and empty texts."""
    from vibe_llms.configuration.sources import load_configuration as load

    overrides = {name: value for name, value in command_line.items() if value not in (None, "")}
    configuration = load(command_line=overrides)
    remember_names(configuration)
    return configuration


def load_application(
    *,
    yes: bool = False,
    change: Callable[[Configuration], Configuration] | None = None,
    **command_line: Any,
) -> Application:
    """Build the application, which asks questions and shows progress on the terminal.

    Args:
        yes: Answer all questions with yes; if false, the configuration decides.
        change: Function that changes the configuration before the application is built.
        command_line: Values that override the configuration.
    """
    from vibe_llms.application import Application
    from vibe_llms.interfaces.cli.consent import TerminalConsent
    from vibe_llms.interfaces.cli.progress import TerminalProgress

    configuration = load_configuration(yes=yes or None, **command_line)
    if change is not None:
        configuration = change(configuration)
    return Application(
        configuration,
        consent=TerminalConsent(configuration.yes),
        progress=TerminalProgress(),
    )


def load_application_and_address(options: Mapping[str, Any]) -> tuple[Application, str]:
    """Build the application for a command that asks a model, from the command's options.

    Returns:
        The application and the address of the model (empty if the options name none).
    """
    from vibe_llms.interfaces.cli.option_values import compose_address

    address = compose_address(options["model"], options["provider"])
    names = ("stream", "window", "lenient", "cache", "approver")
    overrides = {name: options.get(name) for name in names}
    application = load_application(yes=options["yes"], model=address, **overrides)
    warn_untrusted(application.configuration)
    return application, address or ""


def open_plugins() -> PluginManager:
    """Return the manager of the configured plugins; loads none of them yet."""
    from vibe_llms.interfaces.cli.consent import TerminalConsent
    from vibe_llms.plugins.manager import PluginManager

    configuration = load_configuration()
    return PluginManager(configuration=configuration, consent=TerminalConsent(configuration.yes))


def open_store(name: str = "") -> ConversationStore:
    """Open a store of conversations; a built-in store loads no plugin.

    Args:
        name: A value of the setting ``store``; empty for the configured store.
    """
    from vibe_llms.conversations.stores.choosing import produce_shipped

    configuration = load_configuration(store=name)
    shipped = produce_shipped(configuration.store, configuration.data_directory)
    return open_plugins().load_store(configuration.store) if shipped is None else shipped


def open_store_at(place: str, *, must_exist: bool = False) -> ConversationStore:
    """Open a store by a value of the setting ``store``, or by the path of a directory.

    Args:
        place: The value or the path.
        must_exist: Whether the directory must exist already, as for the source of a copy.

    Raises:
        ConfigurationError: The URL is not that of a store.
        StoreError: The directory does not exist.
    """

    from vibe_llms.configuration.definitions import is_postgresql_url

    scheme, mark, _ = place.partition("://")
    if mark and not is_postgresql_url(place):  # the rest may contain a password
        from vibe_llms.exceptions import ConfigurationError

        rule = "use `directory`, a path, postgresql://… or a plugin's store."
        raise ConfigurationError.at("store", f"Unknown store {scheme}://…: {rule}")
    # Store names contain no separator: `./backup` is a path, `backup` a plugin's store.
    if not is_postgresql_url(place) and ("/" in place or os.sep in place or place in (".", "..")):
        from vibe_llms.conversations.stores.directory import DirectoryStore

        path = expand_home(place)
        if must_exist and not path.exists():
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


def resolve_first_word(
    store: ConversationStore, word: str, text_command: str, compose_id_command: Callable[[str], str]
) -> str:
    """Resolve the first of several words as an id or the prefix of one.

    A prefix of fewer than four letters is ambiguous: it may also be the first word of the text.

    Args:
        word: The first word.
        text_command: The command to suggest to a user who did not mean an id.
        compose_id_command: Composes the command to suggest to a user who meant an id, from the
            complete id.

    Raises:
        UnknownConversationError: No id matches.
        AmbiguousIdentityError: Several ids match, or the word may also be text.
    """
    from vibe_llms.exceptions import AmbiguousIdentityError, UnknownConversationError

    try:
        identity = resolve_identity(store, word)
    except (AmbiguousIdentityError, UnknownConversationError) as error:
        error.remedy = f"{error.remedy} If it is not an id: {text_command}"
        raise
    if len(word.strip()) < _CERTAIN_LETTERS and identity != word.strip().lower():
        raise AmbiguousIdentityError(
            identity=word,
            candidates=(identity,),
            detail=f"{word!r} is the start of the id {identity}, but may also be text.",
            remedy=f"If you mean the id: {compose_id_command(identity)}; if not: {text_command}",
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
    """Return the parts of conversations, such as the visits of a flow, and the parts of parts."""
    from vibe_llms.conversations.tags import PART_TAG

    parts_by_whole: dict[str, list[str]] = {}
    for row in open_index(store).survey(limit=None, parts=True):
        for tag in row.tags:
            if tag.startswith(PART_TAG):
                parts_by_whole.setdefault(tag.removeprefix(PART_TAG), []).append(row.id)
    found: list[str] = []
    pending = list(identities)
    while pending:
        parts = [each for each in parts_by_whole.pop(pending.pop(), ()) if each not in identities]
        found += parts
        pending += parts
    return found


def find_identity(store: ConversationStore, prefix: str | None) -> str:
    """Resolve the prefix of an id; ``None`` means the newest conversation.

    Raises:
        UnknownConversationError: No id matches.
        AmbiguousIdentityError: Several ids match.
    """
    return find_newest_identity(store) if prefix is None else resolve_identity(store, prefix)


def restore_conversation(store: ConversationStore, continued: str | None) -> Conversation:
    """Return the conversation to continue, by the value of ``--continue``.

    Args:
        continued: An id or the prefix of one; empty for the newest conversation; ``None`` for a new
            one.

    Raises:
        UnknownConversationError: No id matches.
        AmbiguousIdentityError: Several ids match.
    """
    from vibe_llms.conversations.conversation import Conversation

    if continued is None:
        return Conversation()
    return Conversation.restore(store, find_identity(store, continued or None))


def survey_addresses(configuration: Configuration, provider: str = "") -> list[str]:
    """List the addresses of known models; make no requests and load no provider.

    These are the models in the vendor's last list, or else the default model and the models in the
    built-in data. Each provider's own name precedes its models.

    Args:
        provider: Only models of this provider; empty for all providers.
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
        listed = [model.name for model in survey.models] if survey else []
        models = listed or [default, *read_names(folder)]
        addresses += [name, *(f"{name}:{model}" for model in dict.fromkeys(models) if model)]
    return addresses


def require_provider(configuration: Configuration, name: str) -> None:
    """Raise UnknownNameError if no provider of this name is configured."""
    if name not in configuration.providers:
        from vibe_llms.exceptions import UnknownNameError

        known = configuration.provider_names
        raise UnknownNameError(kind="provider", name=name, known=known)


def warn_untrusted(configuration: Configuration) -> None:
    """Warn on standard error that settings of an untrusted project folder are ignored."""
    request = configuration.trust_request
    if request is not None:
        from vibe_llms.interfaces.cli.output import note

        names = ", ".join(setting.name for setting in request.settings)
        note(f"{request.file}: ignored until you run `vibe trust` for the folder: {names}")
