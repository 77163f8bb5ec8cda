"""Redaction of secrets in settings, wherever the configuration is displayed.

Only a plugin knows which of its settings are secret, and asking it would import it. So texts in a
plugin's table are hidden, unless their key is known to be harmless. The question whether to trust a
folder is different: the user must see all settings that could run a program or send a key
elsewhere, so only literal secrets are hidden.
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
    | {"action", "find", "kind", "model", "models", "parts"}  # of guards
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
"""Suffixes of names whose value is the location of a secret, not the secret."""
_LITERAL = re.compile(r"[\w.+/=~:@-]+")
"""Characters of a literal secret; a shell does not expand them."""


def redact_setting(setting: Setting) -> Any:
    """Return the value of a setting for display, with asterisks for secrets.

    Values with the name of a secret are hidden, at any depth. In the settings of a plugin or a
    server, all texts are hidden except those known to be harmless.
    """
    table, *rest = setting.path
    if table in ("models", DEFAULTS):  # the rest is a pattern or missing
        return _redact("", setting.value)
    name = rest[-1] if rest else table
    if table in PLUGIN_TABLES and len(rest) > 1:
        is_harmless = name in _HARMLESS_TEXTS and isinstance(setting.value, str)
        is_harmless = is_harmless or (name in _HARMLESS_LISTS and _is_list_of_texts(setting.value))
        return _redact(name, setting.value, are_texts_shown=is_harmless)
    if table in NAMED_TABLES and len(rest) > 1:
        return _redact(name, setting.value, are_texts_shown=name in _HARMLESS_OF_SERVERS)
    return _redact(name, setting.value)


def redact_for_trust(setting: Setting) -> Any:
    """Return the value of a setting for a question about trust.

    Literal secrets are hidden: values with the name of a secret, values of command-line options
    with such a name, texts in the format of a vendor's key, and the user in an address. Everything
    else is shown: programs with their arguments, addresses, and the names of variables and files
    that have keys.
    """
    return _redact_literals(setting.path[-1], setting.value, is_secret=False)


def _redact_literals(name: str, value: Any, *, is_secret: bool) -> Any:
    is_secret = (is_secret or is_secret_name(name)) and not _is_reference(name)
    if isinstance(value, Mapping):
        return {
            key: _redact_literals(key, each, is_secret=is_secret) for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        if _is_list_of_texts(value) and not is_secret:
            return list(_redact_arguments(value))
        return [_redact_literals("", each, is_secret=is_secret) for each in value]
    if isinstance(value, bool):
        return value
    if is_secret:
        return HIDDEN
    return _hide_secrets(value) if isinstance(value, str) else value


def _is_reference(name: str) -> bool:
    return not _REFERENCES.isdisjoint(split_words(name)[-1:])


def _redact_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Hide the values of options that are named like secrets, if they are literals."""
    follows_secret_option = False
    for argument in arguments:
        # Hide only literals: "token=$(curl …)" must be visible.
        name, equals, text = argument.partition("=")
        is_secret = is_secret_name(name) and not _is_reference(name)
        if equals and is_secret and _LITERAL.fullmatch(text):
            yield f"{name}={HIDDEN}"
        # The argument after "--token" may be another option, which must be visible.
        elif (
            follows_secret_option and not argument.startswith("-") and _LITERAL.fullmatch(argument)
        ):
            yield HIDDEN
        else:
            yield _hide_secrets(argument)
        follows_secret_option = argument.startswith("-") and is_secret and not equals


def _hide_secrets(text: str) -> str:
    """Hide users in addresses, secret parameters of addresses, and vendors' keys."""
    text = _USER_OF_ADDRESS.sub(rf"\1\2{HIDDEN}@", text)
    text = _SECRET_PARAMETER.sub(rf"\1{HIDDEN}", text)
    return KEY_SHAPES.sub(HIDDEN.encode(), text.encode()).decode()


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)


def redact_addresses(text: str) -> str:
    """Hide the user, the password and the query of every address in a text."""
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
