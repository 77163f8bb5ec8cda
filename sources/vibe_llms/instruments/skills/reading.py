"""Reads a skill from its file, and finds all mistakes in it at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import attrs
import tomli

from vibe_llms.configuration.classes import Layer, Setting, Source
from vibe_llms.configuration.definitions import ADDRESS, NAMES, TEXT, is_plugin_name
from vibe_llms.configuration.lines import locate_keys
from vibe_llms.configuration.trust import is_harmless
from vibe_llms.encodings import explain_misencoding
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.files import read_beginning
from vibe_llms.instruments.prompts.prompt import Prompt
from vibe_llms.instruments.skills.skill import Skill
from vibe_llms.nearness import find_near, suggest

MAXIMUM_FILE_BYTES: Final = 1_000_000


class _Key(NamedTuple):
    words: str
    is_right: Callable[[Any], bool]


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


_TABLE: Final = _Key("a table", _is_table)
_KEYS: Final[Mapping[str, _Key]] = {
    "description": _Key(TEXT.words, TEXT.is_right),
    "prompt": _Key(TEXT.words, TEXT.is_right),
    "model": _Key(ADDRESS.words, ADDRESS.is_right),
    "ensembles": _Key(NAMES.words, NAMES.is_right),
    "mcp": _Key(NAMES.words, NAMES.is_right),
    "values": _TABLE,
    "controls": _TABLE,
    "schema": _TABLE,
}
_REQUIRED: Final = ("description", "prompt")


def read_skill(path: Path | str) -> Skill:
    """Reads a skill.

    Raises:
        ConfigurationError: With all the mistakes in the file, or why it cannot be read.
    """
    path = Path(path)
    return parse_skill(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    """Reads the file of a skill.

    Raises:
        ConfigurationError: It cannot be read, or is too long.
    """
    try:
        raw = read_beginning(path, MAXIMUM_FILE_BYTES + 1)
    except OSError as error:
        raise _refuse(path, f"This file cannot be read: {error.strerror}.") from error
    if len(raw) > MAXIMUM_FILE_BYTES:
        raise _refuse(path, f"A skill has at most {MAXIMUM_FILE_BYTES} bytes.")
    return raw


def parse_skill(raw: bytes, path: Path) -> Skill:
    """Makes a skill of what its file holds.

    Raises:
        ConfigurationError: With all the mistakes in it.
    """
    try:
        text = raw.decode("utf-8")
        tree = tomli.loads(text)
    except UnicodeDecodeError as error:
        reason = explain_misencoding(raw, "This file", path=str(path))
        raise _refuse(path, f"TOML must be written in UTF-8. {reason}") from error
    except tomli.TOMLDecodeError as error:
        raise _refuse(path, f"This is not TOML: {error.msg}.", error.lineno) from error
    except RecursionError as error:
        raise _refuse(path, "This is not TOML: it nests too deeply.") from error
    return _Reader(path, text, tree).read()


def _refuse(path: Path, message: str, line: int = 0) -> ConfigurationError:
    finding = Finding(place=str(path), line=line, message=message)
    return ConfigurationError(findings=(finding,))


class _Reader:
    def __init__(self, path: Path, text: str, tree: Mapping[str, Any]) -> None:
        self.path = path
        self.text = text
        self.tree = tree
        self.lines = locate_keys(text)
        self.findings: list[Finding] = []

    def read(self) -> Skill:
        if not is_plugin_name(self.path.stem):
            self.report("", "The name of a skill, its file's, has letters, digits, '_', '.', '-'.")
        for key in _REQUIRED:
            if key not in self.tree:
                self.report("", f"A skill needs a {key!r}.")
        values = {key: value for key, value in self.tree.items() if self.check(key, value)}
        if "prompt" in values:
            self.check_prompt(values["prompt"], values.get("values", {}))
        if self.findings:
            raise ConfigurationError(findings=tuple(self.findings))
        for key in ("ensembles", "mcp"):
            values[key] = tuple(dict.fromkeys(values.get(key, ())))
        return Skill(name=self.path.stem, place=str(self.path), **values)

    def check(self, key: str, value: Any) -> bool:
        """Checks one key; tells whether it can be used."""
        known = _KEYS.get(key)
        if known is None:
            near = find_near(key, _KEYS)
            hint = suggest(key, _KEYS) if near else f"; known: {', '.join(_KEYS)}."
            self.report(key, f"A skill has no {key!r}{hint}")
        elif not known.is_right(value):
            self.report(key, f"{key!r} must be {known.words}, not {value!r}.")
        elif key == "model" and not is_harmless(
            Setting(("model",), value, Source(Layer.PROJECT)), {}
        ):
            self.report(key, "A skill may choose a model by its name, not by a file.")
        else:
            return True
        return False

    def check_prompt(self, prompt: str, values: Mapping[str, Any]) -> None:
        """Checks that the prompt can be rendered with the values beside it."""
        try:
            template = Prompt(prompt, name=str(self.path))
        except ConfigurationError as error:
            self.findings += [self.shift(finding) for finding in error.findings]
            return
        for name in sorted(template.required - values.keys()):
            self.report("prompt", f"The prompt needs {name!r}: give it a value under [values].")
        for name in sorted(values.keys() - template.variables):
            near = suggest(name, template.variables)
            message = f"The prompt does not use the value {name!r}{near}"
            self.report("values", message, line=self.lines.get(("values", name), 0))

    def shift(self, finding: Finding) -> Finding:
        """Tells a place in the prompt as a place in the file."""
        line = self.lines.get(("prompt",), 0)
        begins_below = self.text.splitlines()[line - 1].rstrip().endswith(("'''", '"""'))
        if begins_below:
            return attrs.evolve(finding, line=line + finding.line)
        column = finding.column if finding.line > 1 else 0  # the key stands before it
        return attrs.evolve(finding, line=line + finding.line - 1, column=column)

    def report(self, key: str, message: str, line: int = 0) -> None:
        line = line or self.lines.get((key,), 0)
        self.findings.append(Finding(place=str(self.path), line=line, message=message))
