"""Read attribute files: the folder of a provider, and the user's configuration.

``attributes.toml`` has the provider's ``[defaults]``, its families as ``[[models]]``, and in
``families`` the names of further families. Each of these has a file or folder of its own under
``model-families/``; a file may contain several families, as ``[[models]]``. A name with a slash,
such as ``openai/gpt-5``, is a family that several providers share, in ``model-families/`` beside
``providers/``. ``models/`` has one file for each model that needs a record of its own.

Later rules win over earlier ones: ``[defaults]``, ``[[models]]`` in the order of the file,
``families`` as listed, then the records of models. ``prefixes`` lists texts that clouds and regions
put before the names of models, such as ``eu.anthropic.``. ``needs_prefix`` is true for a cloud that
has no models without one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import attrs
import tomli

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.files import read_file
from vibe_llms.foundation.package_data import access_data
from vibe_llms.models.attributes import AttributeLayer
from vibe_llms.models.rules import ORIGIN, Rule, RuleReader
from vibe_llms.tables.documents import Document, parse_document
from vibe_llms.tables.kinds import BOOLEAN, TABLE, TEXT, TEXTS, Kind, is_list_of, is_table
from vibe_llms.tables.reading import TableReader

_MODELS_HEADER = re.compile(r"^\s*\[\[models\]\]", re.MULTILINE)
_DEFAULTS_HEADER = re.compile(r"^\s*\[defaults\]", re.MULTILINE)
_MODELS = Kind("tables, each headed [[models]]", is_list_of(is_table))
_ROOT_KEYS = {
    **ORIGIN,
    "default_model": TEXT,
    "names": TEXTS,
    "prefixes": TEXTS,
    "needs_prefix": BOOLEAN,
    "families": TEXTS,
    "defaults": TABLE,
    "models": _MODELS,
}


@frozen(kw_only=True)
class Overrides:
    """The user's attributes of models.

    Attributes:
        place: The configuration file, or another description of the source.
        table: The configuration; only its ``defaults`` and ``models`` are read.
        text: The file's text, to give errors their line; may be empty.
    """

    place: str
    table: Mapping[str, object]
    text: str = ""


@define(kw_only=True)
class ProviderFolder:
    """One folder of a provider's data; all of its parts are optional.

    Attributes:
        directory: The folder.
        findings: Collects the errors.
        shared: Folder of the families that several providers share.
        default_model: The default model; set by :meth:`read`, like the following ones.
        names: Names of models to offer; their attributes are in the families.
        prefixes: Texts that a cloud puts before the model names to which the families apply.
        needs_prefix: Whether all names of models have a prefix.
    """

    directory: Path
    findings: list[Finding]
    shared: Path = attrs.field(factory=lambda: access_data("model-families"))
    default_model: str = ""
    names: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    needs_prefix: bool = False

    def read(self) -> Iterator[Rule]:
        """Read the rules, in order: a later rule wins over an earlier one."""
        path = self.directory / "attributes.toml"
        families: tuple[str, ...] = ()
        if path.is_file():
            document = self._load(path)
            reader = self._produce_reader(document)
            head = reader.tables.read_fields(_ROOT_KEYS, document.tree)
            self.default_model = head.get("default_model", "")
            families = head.get("families", ())
            self.names = head.get("names", ())
            self.prefixes = head.get("prefixes", ())
            self.needs_prefix = head.get("needs_prefix", False)
            yield from _read_tables(
                reader, head, document.text, AttributeLayer.DEFAULT, AttributeLayer.FAMILY
            )
        yield from self._read_family_files(families)
        for path in sorted((self.directory / "models").glob("*.toml")):
            yield self._read_model_file(path)

    def _load(self, path: Path) -> Document:
        try:
            return parse_document(read_file(path), str(path))
        except OSError as error:
            self._report(path, f"This file cannot be read: {error}.")
        except ConfigurationError as error:
            self.findings += error.findings
        return Document(str(path), "", {})

    def _report(self, path: Path, message: str) -> None:
        self.findings.append(Finding(place=str(path), message=message))

    def _produce_reader(self, document: Document) -> RuleReader:
        """Make a reader for a document, whose root may name its source and date."""
        head = {key: document.tree[key] for key in ORIGIN if key in document.tree}
        # Errors of these fields are ignored here, as the reader of the whole root reports them.
        origin = TableReader(document.locate).read_fields(ORIGIN, head)
        tables = TableReader(document.locate, self.findings)
        return RuleReader(place=document.place, tables=tables, **origin)

    def _read_family_files(self, families: tuple[str, ...]) -> Iterator[Rule]:
        folder = self.directory / "model-families"
        files = {path.stem: path for path in sorted(folder.glob("*.toml"))}
        files |= {path.parent.name: path for path in sorted(folder.glob("*/attributes.toml"))}
        files |= {name: self.shared / f"{name}.toml" for name in families if "/" in name}
        for name in families:
            if name not in files or not files[name].is_file():
                place = self.shared if "/" in name else folder
                message = f"'families' names {name!r}, which does not exist in {place.name}."
                self._report(self.directory / "attributes.toml", message)
                continue
            document = self._load(files[name])
            table = document.tree
            if "models" in table:
                yield from self._read_list(document)
                continue
            rule = self._produce_reader(document).read(table, AttributeLayer.FAMILY, name=name)
            if table and ("pattern" not in table or rule.model):
                self._report(files[name], "A family needs a 'pattern' and must not have a 'model'.")
            yield rule
        for name in sorted(files.keys() - set(families)):
            self._report(
                files[name],
                "The family is not listed in 'families' of attributes.toml, "
                "which sets their order.",
            )

    def _read_list(self, document: Document) -> Iterator[Rule]:
        """Read a file with several families, each a table of ``[[models]]``."""
        reader = self._produce_reader(document)
        head = reader.tables.read_fields({**ORIGIN, "models": _MODELS}, document.tree)
        for rule in _read_tables(
            reader, head, document.text, AttributeLayer.DEFAULT, AttributeLayer.FAMILY
        ):
            if rule.provenance.layer is AttributeLayer.FAMILY:
                yield rule

    def _read_model_file(self, path: Path) -> Rule:
        document = self._load(path)
        model = {"model": path.name.removesuffix(".toml")}
        if "pattern" in document.tree:
            self._report(path, "The record of one model must not have a 'pattern'.")
        return self._produce_reader(document).read({**model, **document.tree}, AttributeLayer.MODEL)


def _read_tables(
    reader: RuleReader,
    head: Mapping[str, Any],
    text: str,
    defaults_layer: AttributeLayer,
    models_layer: AttributeLayer,
) -> Iterator[Rule]:
    """Read ``[defaults]`` and each of ``[[models]]``.

    Args:
        head: The valid part of the document's root.
        text: The document's text, to find the lines of ``[[models]]``.
        defaults_layer: The layer of the defaults.
        models_layer: The layer of a table in ``[[models]]``; if it is ``FAMILY``, a table with the
            name of one model is in ``MODEL``.
    """
    defaults = head.get("defaults", {})
    if "pattern" in defaults or "model" in defaults:
        reader.tables.report(("defaults",), "It has no 'pattern' and no 'model'.")
    line = _find_defaults(reader, text) if defaults else 0
    yield reader.read(defaults, defaults_layer, ("defaults",), line=line)
    # Inline tables in a list have no headers.
    lines = chain(_survey_headers(text), repeat(0))
    for index, (model, line) in enumerate(zip(head.get("models", ()), lines, strict=False)):
        path = ("models", index)
        if len({"pattern", "model"} & model.keys()) != 1:
            reader.tables.report(path, "It needs either 'pattern' or 'model'.")
        is_record = models_layer is AttributeLayer.FAMILY and "model" in model
        layer = AttributeLayer.MODEL if is_record else models_layer
        yield reader.read(model, layer, path, line=line)


def _find_defaults(reader: RuleReader, text: str) -> int:
    """Return the line of ``[defaults]``; finding that of each key would be slower."""
    if match := _DEFAULTS_HEADER.search(text):
        return text.count("\n", 0, match.end()) + 1
    return reader.tables.locate(("defaults",))[1]


def _survey_headers(text: str) -> Iterator[int]:
    """Yield the line of each ``[[models]]``; finding that of each key would be slower."""
    line, position = 1, 0
    for match in _MODELS_HEADER.finditer(text):
        line += text.count("\n", position, match.end())
        position = match.end()
        yield line


def read_names(directory: Path) -> list[str]:
    """List the models that a folder names: those to offer, and those with a record.

    For callers that need only names, and quickly; errors in the folder are ignored.
    """
    names: list[str] = []
    path = directory / "attributes.toml"
    with contextlib.suppress(OSError, ValueError):
        table = tomli.loads(read_file(path).decode())
        values = [table.get("default_model", ""), *table.get("names", ())]
        names = [value for value in values if isinstance(value, str) and value]
    records = sorted(path.stem for path in (directory / "models").glob("*.toml"))
    return list(dict.fromkeys((*names, *records)))


def read_overrides(overrides: Overrides, findings: list[Finding]) -> Iterator[Rule]:
    """Read the user's attributes; errors are appended to the findings."""
    document = Document(overrides.place, overrides.text, overrides.table)
    tables = TableReader(document.locate, findings)
    reader = RuleReader(place=document.place, tables=tables, source="the user's configuration")
    root = {key: overrides.table[key] for key in ("defaults", "models") if key in overrides.table}
    head = tables.read_fields(_ROOT_KEYS, root)
    yield from _read_tables(reader, head, document.text, AttributeLayer.USER, AttributeLayer.USER)
