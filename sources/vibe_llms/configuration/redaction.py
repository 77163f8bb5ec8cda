"""Takes the secrets out of settings, for whatever people are shown of the configuration.

Only a plugin knows which of its settings are secret, and asking it would import it. So of a
plugin's table no text is shown, except where its name is known to be harmless.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from vibe_llms.configuration.classes import Setting
from vibe_llms.configuration.definitions import DEFAULTS, NAMED_TABLES, PLUGIN_TABLES

HIDDEN = "********"

_HARMLESS_TEXTS = frozenset({"module", "package", "model", "path", "script", "base_url"})
_HARMLESS_LISTS = frozenset({"directories", "read_only"})
_HARMLESS_OF_SERVERS = frozenset(
    {"allowed", "command", "directory", "hidden_tools", "log_path", "protocol", "tools", "url"}
)
_SECRET_WORDS = frozenset(
    {"apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials", "key"}
    | {"keys", "passphrase", "passwd", "password", "passwords", "pin", "secret", "secrets", "token"}
)
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_USER_OF_ADDRESS = re.compile(r"(://)[^/?#\s]*@|(^|\s)[^/?#\s@]*:[^/?#\s@]*@")
_QUERY_OF_ADDRESS = re.compile(r"(://[^?#\s]*[?#])\S+")


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


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def redact_addresses(text: str) -> str:
    """Hides the user, the password and the query of every address in a text."""
    return _QUERY_OF_ADDRESS.sub(rf"\1{HIDDEN}", _USER_OF_ADDRESS.sub(rf"\1\2{HIDDEN}@", text))


def _redact(name: str, value: Any, *, are_texts_shown: bool = True) -> Any:
    if isinstance(value, bool):
        return value
    if _is_secret(name):
        return HIDDEN
    if isinstance(value, Mapping):
        return {
            key: _redact(key, inner, are_texts_shown=are_texts_shown)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redact("", inner, are_texts_shown=are_texts_shown) for inner in value]
    if isinstance(value, str):
        return redact_addresses(value) if are_texts_shown else HIDDEN
    return value


def _is_secret(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    return not _SECRET_WORDS.isdisjoint(words)
