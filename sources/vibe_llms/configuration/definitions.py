"""The closed table of settings: their names, what their values must be, and who may set them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

ENVIRONMENT_PREFIX = "VIBE_LLMS_"
_PLUGIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class Kind(NamedTuple):
    """What values a setting takes.

    Attributes:
        words: What a value must be, for a message.
        is_right: Whether a value is such a one.
        read: Makes a value of an environment variable's text; what it cannot read it
            returns unchanged, for ``is_right`` to refuse.
    """

    words: str
    is_right: Callable[[Any], bool]
    read: Callable[[str], Any] = str


def is_plugin_name(text: str) -> bool:
    """Tells whether the text can name a provider, an ensemble or another plugin."""
    return _PLUGIN_NAME.fullmatch(text) is not None


def _is_address(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    provider, colon, name = value.partition(":")
    return is_plugin_name(provider) and bool(name.strip()) == bool(colon)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_list_of_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(_is_text(item) for item in value)


def _is_module_name(value: Any) -> bool:
    return isinstance(value, str) and all(part.isidentifier() for part in value.split("."))


def _read_boolean(text: str) -> bool | str:
    words = {"1": True, "true": True, "yes": True, "on": True}
    words |= {"0": False, "false": False, "no": False, "off": False}
    return words.get(text.strip().lower(), text)


def _read_count(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def _read_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _is_window(value: Any) -> bool:
    return value in WINDOWS


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and is_plugin_name(value)


WINDOWS = ("stop", "drop", "summarize")
"""What can become of the oldest turns of a conversation that exceeds the model's window."""

ADDRESS = Kind("text of the form provider:model, or a provider's name", _is_address)
TEXT = Kind("text that is not empty", _is_text)
PATH = Kind("the path of a directory", _is_text)
BOOLEAN = Kind("true or false", _is_boolean, _read_boolean)
COUNT = Kind("a whole number of at least 1", _is_count, _read_count)
NAMES = Kind("a list of names", _is_list_of_names, _read_names)
MODULE = Kind("the dotted name of a module", _is_module_name)
TERMINAL_APPROVER = "terminal"
"""The approver that ships: the person there."""

DIRECTORY_STORE = "directory"
"""The store that ships: files below the directory for data."""

APPROVER = Kind('"terminal", or the name of an approver', _is_name)
STORE = Kind('"directory", or the name of a store', _is_name)
WINDOW = Kind('"stop", "drop" or "summarize"', _is_window)


class Definition(NamedTuple):
    """One setting that the configuration knows.

    Attributes:
        name: Its dotted name.
        kind: What values it takes.
        summary: What it decides, as one sentence for the manual.
        is_harmless: Whether a project folder may set it before it is trusted.
    """

    name: str
    kind: Kind
    summary: str
    is_harmless: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return ENVIRONMENT_PREFIX + self.name.replace(".", "_").upper()


_SETTINGS = (
    Definition(
        name="model",
        kind=ADDRESS,
        summary="The model to converse with unless another is asked for, as provider:model.",
        is_harmless=True,
    ),
    Definition(
        name="stream",
        kind=BOOLEAN,
        summary="Whether answers are shown while they arrive.",
        is_harmless=True,
    ),
    Definition(
        name="window",
        kind=WINDOW,
        summary="What becomes of the oldest turns of a conversation that exceeds the model's "
        'window: "stop" is an error, "drop" leaves them out of what is sent, "summarize" has the '
        "model summarize them first, in a call of its own. What is kept is the whole conversation.",
        is_harmless=True,
    ),
    Definition(
        name="lenient",
        kind=BOOLEAN,
        summary="Whether a control that a model does not take is left out and told as a loss, "
        "instead of being an error.",
        is_harmless=True,
    ),
    Definition(
        name="approver",
        kind=APPROVER,
        summary="Who decides whether a call that needs an approval is executed: "
        '"terminal" is the person there, any other name an approver that a plugin has. '
        "A project folder can never set it unless it is trusted.",
    ),
    Definition(
        name="store",
        kind=STORE,
        summary='Where conversations are kept: "directory" is in files below `directories.data`, '
        "any other name a store that a plugin has. "
        "A project folder can never set it unless it is trusted.",
    ),
    Definition(
        name="yes",
        kind=BOOLEAN,
        summary="Whether questions for consent count as answered with yes; for scripts. "
        "A project folder can never set it.",
    ),
    Definition(
        name="directories.data",
        kind=PATH,
        summary="Where conversations, weights, plugins and trust are kept.",
    ),
    Definition(
        name="directories.cache",
        kind=PATH,
        summary="Where is kept what may be deleted at any time.",
    ),
    Definition(
        name="telemetry.opentelemetry",
        kind=BOOLEAN,
        summary="Whether answers, runs and executed tools make spans and metrics of OpenTelemetry, "
        "for a program that has set its SDK up.",
    ),
    Definition(
        name="telemetry.texts",
        kind=BOOLEAN,
        summary="Whether those spans have what was asked and answered, too. "
        "A project folder can never set it unless it is trusted.",
    ),
    Definition(
        name="plugins.disabled",
        kind=NAMES,
        summary="Providers, ensembles and plugins never to be loaded; the lists of all "
        "layers add up. A project folder cannot name a plugin of yours in it unless it is trusted.",
        is_harmless=True,
    ),
)
SETTINGS: Mapping[str, Definition] = {definition.name: definition for definition in _SETTINGS}
"""The settings by dotted name, without the limits, which the shipped defaults name."""

PLUGIN_KEYS: Mapping[str, Kind] = {"module": MODULE, "package": TEXT, "enabled": BOOLEAN}
"""What a plugin's table may say to us; its other keys are the plugin's own."""

PLUGIN_TABLES = ("providers", "ensembles", "plugins")
"""The tables that name plugins."""

NAMED_TABLES = ("mcp",)
"""Tables of tables, each with a name that the user chose; their keys are checked later, too."""

ALIASES = "aliases"
"""The table from another name to what it stands for."""

DEFAULTS = "defaults"
"""The table of what is said about all models."""

FREE_TABLES = frozenset({"controls"})
"""Tables whose keys are checked later, by the one who knows them."""


def define_limit(name: str) -> Definition:
    """Returns the definition of a limit which the shipped defaults name."""
    return Definition(name=name, kind=COUNT, summary="A limit; its name tells the unit.")
