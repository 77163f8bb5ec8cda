"""Secrets in settings, which may be stored in environment variables or files."""

from __future__ import annotations

import os
from typing import Annotated, Any, Final, TypeAlias

from vibe_llms.foundation.child_environment import remember_key
from vibe_llms.foundation.files import expand_home, read_secret
from vibe_llms.foundation.secrets import Secret
from vibe_llms.tables.kinds import FAULTY, Kind, KindReader, is_table
from vibe_llms.tables.paths import KeyPath

_FORMS: Final = (
    'a text, or where to find it: {variable = "NAME"} or {file = "PATH"}, optionally '
    'with prefix = "Bearer "'
)


class SecretKind(Kind):
    """A secret: its value, or the environment variable or file that contains it."""

    __slots__ = ()

    def read(self, value: Any, path: KeyPath, reader: KindReader) -> Any:
        if super().read(value, path, reader) is FAULTY:
            return FAULTY
        if not is_table(value):
            return value if isinstance(value, Secret) else Secret(value)
        try:
            if "file" in value:
                text = read_secret(reader.base / expand_home(value["file"]))
            else:
                text = _access(value)
        except ValueError as error:
            reader.report(path, str(error))
            return FAULTY
        return Secret(f"{value.get('prefix', '')}{text}")


def _is_secret(value: Any) -> bool:
    if not is_table(value):
        return isinstance(value, (str, Secret))
    places = value.keys() - {"prefix"}
    return places in ({"variable"}, {"file"}) and all(isinstance(v, str) for v in value.values())


def _access(value: Any) -> str:
    variable = value["variable"]
    text = os.environ.get(variable)
    if text is None:
        raise ValueError(f"The environment variable {variable} is not set.")
    remember_key(variable)
    return text


SecretText: TypeAlias = Annotated[Secret, SecretKind(_FORMS, _is_secret, is_shown=False)]
