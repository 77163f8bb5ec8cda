"""The fixed table of settings: their names, kinds, and whether a project may set them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from vibe_llms.tables.kinds import (
    BOOLEAN,
    COUNT,
    PATTERN,
    STRING,
    TEXT,
    TEXTS,
    Choice,
    Kind,
    is_text,
)

ENVIRONMENT_PREFIX = "VIBE_LLMS_"
_PLUGIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def is_plugin_name(text: str) -> bool:
    """Return whether the text is a valid name of a provider, an ensemble or another plugin."""
    return _PLUGIN_NAME.fullmatch(text) is not None


def _is_address(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    provider, colon, name = value.partition(":")
    if colon and not name.strip():
        return False
    return is_plugin_name(provider)


def _is_module_name(value: Any) -> bool:
    return isinstance(value, str) and all(part.isidentifier() for part in value.split("."))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and is_plugin_name(value)


WINDOWS = ("stop", "drop", "summarize", "vendor")
"""Ways to handle the oldest turns of a conversation that exceeds the model's window."""

ADDRESS = Kind("text of the form provider:model, or a provider's name", _is_address)
DIRECTORY = Kind("the path of a directory", is_text)
NAMES = Kind("a list of names", TEXTS.is_valid, TEXTS.convert, parse=TEXTS.parse)
MODULE = Kind("the dotted name of a module", _is_module_name)
WINDOW = Choice(WINDOWS)
_LIFETIME = re.compile(r"[1-9][0-9]{0,6}[smh]")
CACHE = Kind(
    '"off", "on", or a lifetime such as "1h"',
    lambda value: (
        isinstance(value, str) and (value in ("off", "on") or bool(_LIFETIME.fullmatch(value)))
    ),
)
TERMINAL_APPROVER = "terminal"
"""The shipped approver: asks the person at the terminal."""

DIRECTORY_STORE = "directory"
"""The shipped store: files below the data directory."""

APPROVER = Kind('"terminal", or the name of an approver', _is_name)


# The URL must not have a password, as settings are displayed, and their files are shared.
_URL_WITHOUT_PASSWORD = re.compile(
    r"postgres(ql)?://(?![^/]*:[^/]*@)(?!.*password=)(?!.*[?&]content=[^&]*(@|%40)).+"
)


def is_postgresql_url(text: str) -> bool:
    """Return whether the text is the URL of a PostgreSQL database."""
    return text.startswith(("postgresql://", "postgres://"))


def _is_store(value: Any) -> bool:
    return _is_name(value) or (
        isinstance(value, str) and _URL_WITHOUT_PASSWORD.fullmatch(value) is not None
    )


STORE = Kind(
    '"directory", a URL such as postgresql://user@host/database (set the password in '
    "PGPASSWORD or ~/.pgpass), or the name of a store",
    _is_store,
)


class Definition(NamedTuple):
    """One known setting.

    Attributes:
        name: Dotted name of the setting.
        kind: The kind of its values.
        summary: Meaning of the setting, as one sentence for the manual.
        is_harmless: Whether a project folder may set it before it is trusted.
    """

    name: str
    kind: Kind
    summary: str
    is_harmless: bool = False

    @property
    def variable(self) -> str:
        """The environment variable of the setting."""
        return ENVIRONMENT_PREFIX + self.name.replace(".", "_").upper()


_SETTINGS = (
    Definition(
        name="model",
        kind=ADDRESS,
        summary="Default model, as provider:model.",
        is_harmless=True,
    ),
    Definition(
        name="embedder",
        kind=ADDRESS,
        summary="Default embedder, as provider:model.",
        is_harmless=True,
    ),
    Definition(
        name="moderator",
        kind=ADDRESS,
        summary="Default moderator, as provider:model; none by default.",
        is_harmless=True,
    ),
    Definition(
        name="ranker",
        kind=ADDRESS,
        summary="Default ranker, as provider:model; an embedder ranks by its vectors.",
        is_harmless=True,
    ),
    Definition(
        name="illustrator",
        kind=ADDRESS,
        summary="Default illustrator, as provider:model.",
        is_harmless=True,
    ),
    Definition(
        name="speaker",
        kind=ADDRESS,
        summary="Default speaker, as provider:model.",
        is_harmless=True,
    ),
    Definition(
        name="transcriber",
        kind=ADDRESS,
        summary="Default transcriber, as provider:model.",
        is_harmless=True,
    ),
    Definition(
        name="stream",
        kind=BOOLEAN,
        summary="Show answers while they arrive.",
        is_harmless=True,
    ),
    Definition(
        name="window",
        kind=WINDOW,
        summary='What to do if a conversation exceeds the model\'s window: "stop" raises an error, '
        '"drop" does not send the oldest turns, "summarize" continues chats in a fork that begins '
        'with the model\'s summary, "vendor" lets Anthropic or OpenAI compact the conversation. '
        "Stored messages are always kept.",
        is_harmless=True,
    ),
    Definition(
        name="lenient",
        kind=BOOLEAN,
        summary="Leave out controls that a model does not support and report them as losses, "
        "instead of raising an error.",
        is_harmless=True,
    ),
    Definition(
        name="cache",
        kind=CACHE,
        summary='Prompt caching of growing conversations: "off", "on" for the vendor\'s usual '
        'lifetime, or a lifetime such as "1h". Vendors that need no mark cache anyway.',
        is_harmless=True,
    ),
    Definition(
        name="approver",
        kind=APPROVER,
        summary='Approver for calls that need approval: "terminal" asks the user there; any other '
        "name is a plugin's approver. A project folder can set it only if it is trusted.",
    ),
    Definition(
        name="store",
        kind=STORE,
        summary='Store for conversations: "directory" uses files below `directories.data`; '
        "postgresql://user@host/database uses a database that several machines may share "
        "(add ?content=… to store content elsewhere); any other name is a plugin's store. A "
        "project folder can set it only if it is trusted.",
    ),
    Definition(
        name="yes",
        kind=BOOLEAN,
        summary="Answer all questions for consent with yes; for scripts. A project folder can "
        "never set it.",
    ),
    Definition(
        name="directories.data",
        kind=DIRECTORY,
        summary="Directory for conversations, weights, plugins and trust.",
    ),
    Definition(
        name="directories.cache",
        kind=DIRECTORY,
        summary="Directory for caches, which may be deleted at any time.",
    ),
    Definition(
        name="telemetry.opentelemetry",
        kind=BOOLEAN,
        summary="Create OpenTelemetry spans and metrics of answers, runs and tools, for programs "
        "that configure the OpenTelemetry SDK.",
    ),
    Definition(
        name="telemetry.texts",
        kind=BOOLEAN,
        summary="Also record prompts and answers in those spans. A project folder can set it only "
        "if it is trusted.",
    ),
    Definition(
        name="plugins.disabled",
        kind=NAMES,
        summary="Providers, ensembles and plugins that are never loaded; the lists of all layers "
        "are combined. A project folder can name your own plugins only if it is trusted.",
        is_harmless=True,
    ),
)
SETTINGS: Mapping[str, Definition] = {definition.name: definition for definition in _SETTINGS}
"""The settings by dotted name, without the limits, which the shipped defaults define."""

PLUGIN_KEYS: Mapping[str, Kind] = {"module": MODULE, "package": TEXT, "enabled": BOOLEAN}
"""Keys of a plugin's table that we read; all others are settings of the plugin."""

OVERRIDE_KEYS: Mapping[str, Kind] = {
    "pattern": PATTERN,
    "provider": Kind("a provider's name", STRING.is_valid),
}
"""Keys of each of [[models]] that we read; all others are attributes of the models."""

PLUGIN_TABLES = ("providers", "ensembles", "plugins")
"""The tables that name plugins."""

NAMED_TABLES = ("mcp", "guards")
"""Tables of tables, each with a name that the user chooses; other code validates their keys."""

ALIASES = "aliases"
"""The table of aliases."""

DEFAULTS = "defaults"
"""The table of attributes of all models."""

FREE_TABLES = frozenset({"controls"})
"""Tables with any keys; the code that uses them validates them."""


def define_limit(name: str) -> Definition:
    """Return the definition of a limit in the shipped defaults."""
    return Definition(name=name, kind=COUNT, summary="A limit; the end of its name is the unit.")
