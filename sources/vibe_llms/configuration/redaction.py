"""Takes the secrets out of settings, for whatever people are shown of the configuration.

Only a plugin knows which of its settings are secret, and asking it would import it. So of a
plugin's table no text is shown, except where its name is known to be harmless. It is the other way
round where somebody shall agree to the settings of a folder: whatever they do not see could run,
or lead a key elsewhere, so that nothing but a secret itself is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vibe_llms.configuration.classes import Setting
from vibe_llms.configuration.definitions import DEFAULTS, NAMED_TABLES, PLUGIN_TABLES
from vibe_llms.foundation.secrets import HIDDEN, KEY_SHAPES, is_secret_name, split_words

_HARMLESS_TEXTS = frozenset({"module", "package", "model", "path", "script", "base_url"})
_HARMLESS_LISTS = frozenset({"directories", "read_only"})
_HARMLESS_OF_SERVERS = frozenset(
    {"allowed", "command", "directory", "hidden_tools", "log_path", "protocol", "tools", "url"}
)
_USER_OF_ADDRESS = re.compile(r"(://)[^/?#\s]*@|(^|\s)[^/?#\s@]*:[^/?#\s@]*@")
_QUERY_OF_ADDRESS = re.compile(r"(://[^?#\s]*[?#])\S+")
_SECRET_PARAMETER = re.compile(
    r"([?#&](?:[a-z]+[_-])*(?:key|token|secret|password|signature|sig|auth)=)[^&#\s]+",
    re.IGNORECASE,
)
_REFERENCES = frozenset(
    {"command", "file", "helper", "name", "path", "prefix", "program", "url", "variable"}
)
"""What ends in one of these says where a secret is, or who brings it, and is none."""
_LITERAL = re.compile(r"[\w.+/=~:@-]+")
"""What a secret is written with; a shell makes nothing else of it."""


def redact_setting(setting: Setting) -> Any:
    """Returns the value of a setting as it may be shown, with asterisks for what may not.

    Hidden is what has the name of a secret, at any depth, and of the settings of a plugin or of
    a server every text except those that are known to be harmless.
    """
    table, *rest = setting.path
    if table in ("models", DEFAULTS):  # the rest is a pattern, or nothing: no name
        return _redact("", setting.value)
    name = rest[-1] if rest else table
    if table in PLUGIN_TABLES and len(rest) > 1:
        is_harmless = name in _HARMLESS_TEXTS and isinstance(setting.value, str)
        is_harmless = is_harmless or (name in _HARMLESS_LISTS and _is_list_of_texts(setting.value))
        return _redact(name, setting.value, are_texts_shown=is_harmless)
    if table in NAMED_TABLES and len(rest) > 1:
        return _redact(name, setting.value, are_texts_shown=name in _HARMLESS_OF_SERVERS)
    return _redact(name, setting.value)


def redact_wish(setting: Setting) -> Any:
    """Returns the value of a setting as it is shown to whoever is asked to agree to it.

    Hidden are secrets that are written down: what is called one, what follows an option that is
    called one, what has the shape of a vendor's key, and the user of an address. All else is
    shown: programs with their arguments, addresses, and the variables and files that hold keys.
    """
    return _redact_wish(setting.path[-1], setting.value, is_secret=False)


def _redact_wish(name: str, value: Any, *, is_secret: bool) -> Any:
    is_secret = (is_secret or is_secret_name(name)) and not _is_reference(name)
    if isinstance(value, Mapping):
        return {key: _redact_wish(key, each, is_secret=is_secret) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        if _is_list_of_texts(value) and not is_secret:
            return list(_redact_arguments(value))
        return [_redact_wish("", each, is_secret=is_secret) for each in value]
    if isinstance(value, bool):
        return value
    if is_secret:
        return HIDDEN
    return _strike(value) if isinstance(value, str) else value


def _is_reference(name: str) -> bool:
    return not _REFERENCES.isdisjoint(split_words(name)[-1:])


def _redact_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Hides the values of options that are called secrets, and only what can be nothing else."""
    follows = False
    for argument in arguments:
        # Only what is written like a secret is hidden: "token=$(curl …)" has to be seen.
        name, equals, text = argument.partition("=")
        is_secret = is_secret_name(name) and not _is_reference(name)
        if equals and is_secret and _LITERAL.fullmatch(text):
            yield f"{name}={HIDDEN}"
        # After "--token" an option may follow as well, which is no secret and has to be seen.
        elif follows and not argument.startswith("-") and _LITERAL.fullmatch(argument):
            yield HIDDEN
        else:
            yield _strike(argument)
        follows = argument.startswith("-") and is_secret and not equals


def _strike(text: str) -> str:
    text = _USER_OF_ADDRESS.sub(rf"\1\2{HIDDEN}@", text)
    text = _SECRET_PARAMETER.sub(rf"\1{HIDDEN}", text)
    return KEY_SHAPES.sub(HIDDEN.encode(), text.encode()).decode()


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)


def redact_addresses(text: str) -> str:
    """Hides the user, the password and the query of every address in a text."""
    return _QUERY_OF_ADDRESS.sub(rf"\1{HIDDEN}", _USER_OF_ADDRESS.sub(rf"\1\2{HIDDEN}@", text))


def _redact(name: str, value: Any, *, are_texts_shown: bool = True) -> Any:
    if isinstance(value, bool):
        return value
    if is_secret_name(name):
        return HIDDEN
    if isinstance(value, Mapping):
        return {
            key: _redact(key, inner, are_texts_shown=are_texts_shown)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_redact("", inner, are_texts_shown=are_texts_shown) for inner in value]
    if isinstance(value, str):
        return redact_addresses(value) if are_texts_shown else HIDDEN
    return value
