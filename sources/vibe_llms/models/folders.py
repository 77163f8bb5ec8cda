"""Reads attribute files: the folder of a provider, and what the user wrote.

``attributes.toml`` holds the provider's ``[defaults]``, families as ``[[models]]``, and in
``families`` the names of further families, one file or folder each under ``model-families/``.
``prefixes`` are what clouds and regions put before a model's name.
The order is: ``[[models]]`` as they stand, then ``families`` as listed. ``models/`` has one file
for each model that needs a record of its own. A name with a slash, such as ``openai/gpt-5``, is a
family that several providers share; those ship under ``model-families/`` beside ``providers/``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from pathlib import Path

import attrs
import tomli

from vibe_llms.exceptions import Finding
from vibe_llms.files import read_file
from vibe_llms.models.attributes import Layer
from vibe_llms.models.rules import MODELS_HEADER, Document, Rule, RuleReader
from vibe_llms.nearness import end_among
from vibe_llms.resources import access_data

_ROOT_KEYS = (
    "source",
    "date",
    "default_model",
    "names",
    "prefixes",
    "families",
    "defaults",
    "models",
)


@attrs.frozen(kw_only=True)
class Overrides:
    """What the user wrote about models.

    Attributes:
        place: The configuration file, or another word for where it was written.
        table: The configuration; only its ``defaults`` and ``models`` are read.
        text: The file's text, to give mistakes their line; may be empty.
    """

    place: str
    table: Mapping[str, object]
    text: str = ""


@attrs.define(kw_only=True)
class ProviderFolder:
    """One folder of a provider's data, which may lack any of its parts.

    Attributes:
        findings: Takes the mistakes.
        shared: Holds the families that several providers share.
        default_model: Known once the rules have been read.
        names: Likewise: models to be offered, of which the families say what is to be known.
        prefixes: Likewise: what can stand before the name by which the families know a model.
    """

    directory: Path
    findings: list[Finding]
    shared: Path = attrs.field(factory=lambda: access_data("model-families"))
    default_model: str = ""
    names: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()

    def read(self) -> Iterator[Rule]:
        """Reads the rules, in the order in which they speak."""
        path = self.directory / "attributes.toml"
        families: tuple[str, ...] = ()
        if path.is_file():
            document, table = self._load(path)
            reader = self._produce_reader(document, table)
            for key in table:
                if key not in _ROOT_KEYS:
                    message = f"Nothing is known as {key!r} here{end_among(key, _ROOT_KEYS)}"
                    reader.report(message, document.locate_key(key))
            self.default_model = self._read_default_model(reader, table)
            families = self._read_list(reader, table, "families")
            self.names = self._read_list(reader, table, "names")
            self.prefixes = self._read_list(reader, table, "prefixes")
            yield from _read_tables(reader, table, default=Layer.DEFAULT, named=Layer.FAMILY)
        yield from self._read_family_files(families)
        for path in sorted((self.directory / "models").glob("*.toml")):
            yield self._read_model_file(path)

    def _load(self, path: Path) -> tuple[Document, dict[str, object]]:
        try:
            text = read_file(path).decode()
        except (OSError, UnicodeDecodeError) as error:
            self._report(path, f"The file cannot be read: {error}.")
            return Document(file=str(path)), {}
        document = Document(file=str(path), text=text)
        try:
            return document, tomli.loads(text)
        except tomli.TOMLDecodeError as error:
            self._report(path, f"This is no TOML: {error.msg}.", error.lineno)
            return document, {}

    def _report(self, path: Path, message: str, line: int = 0) -> None:
        self.findings.append(Finding(place=str(path), line=line, message=message))

    def _produce_reader(self, document: Document, table: dict[str, object]) -> RuleReader:
        """Makes a reader for a document whose root names source and date for all of it."""
        plain = RuleReader(document=document, findings=self.findings)
        head: dict[str, object] = {key: table[key] for key in ("source", "date") if key in table}
        provenance = plain.read(head, Layer.DEFAULT).provenance
        return attrs.evolve(plain, source=provenance.source, date=provenance.date)

    def _read_list(
        self, reader: RuleReader, table: Mapping[str, object], key: str
    ) -> tuple[str, ...]:
        names = table.get(key, [])
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return tuple(names)
        reader.report(f"{key!r} must be a list of names.", reader.document.locate_key(key))
        return ()

    def _read_default_model(self, reader: RuleReader, table: Mapping[str, object]) -> str:
        name = table.get("default_model", "")
        if isinstance(name, str):
            return name
        line = reader.document.locate_key("default_model")
        reader.report("'default_model' must be the name of a model.", line)
        return ""

    def _read_family_files(self, families: tuple[str, ...]) -> Iterator[Rule]:
        folder = self.directory / "model-families"
        files = {path.stem: path for path in sorted(folder.glob("*.toml"))}
        files |= {path.parent.name: path for path in sorted(folder.glob("*/attributes.toml"))}
        files |= {name: self.shared / f"{name}.toml" for name in families if "/" in name}
        for name in families:
            if name not in files or not files[name].is_file():
                place = self.shared if "/" in name else folder
                message = f"'families' names {name!r}, which {place.name} does not have."
                self._report(self.directory / "attributes.toml", message)
                continue
            document, table = self._load(files[name])
            rule = self._produce_reader(document, table).read(table, Layer.FAMILY, name=name)
            if table and (rule.pattern is None or rule.model):
                self._report(files[name], "A family needs a 'pattern', and no 'model'.")
            yield rule
        for name in sorted(files.keys() - set(families)):
            self._report(
                files[name],
                "The family is not listed in 'families' of attributes.toml, "
                "which says their order.",
            )

    def _read_model_file(self, path: Path) -> Rule:
        document, table = self._load(path)
        model = {"model": path.name.removesuffix(".toml")}
        if "pattern" in table:
            self._report(path, "The record of one model has no 'pattern'.")
        return self._produce_reader(document, table).read({**model, **table}, Layer.MODEL)


def _read_tables(
    reader: RuleReader, table: Mapping[str, object], *, default: Layer, named: Layer
) -> Iterator[Rule]:
    """Reads ``[defaults]`` and each of ``[[models]]``.

    Args:
        default: The layer of the defaults.
        named: The layer of a table with a pattern.
    """
    defaults = table.get("defaults", {})
    line = next(iter(reader.document.locate_all(r"\[defaults\]")), 0)
    if isinstance(defaults, Mapping):
        if "pattern" in defaults or "model" in defaults:
            reader.report("'defaults' have no 'pattern' and no 'model'.", line)
        yield reader.read(defaults, default, line=line)
    else:
        reader.report("'defaults' must be a table.", reader.document.locate_key("defaults"))
    models = table.get("models", [])
    if not isinstance(models, list) or not all(isinstance(model, Mapping) for model in models):
        reader.report("'models' must be tables, each headed [[models]].")
        return
    lines = chain(reader.document.locate_all(MODELS_HEADER), repeat(0))
    for model, line in zip(models, lines, strict=False):
        if ("pattern" in model) == ("model" in model):
            reader.report("A table of 'models' needs either 'pattern' or 'model'.", line)
        layer = Layer.MODEL if named is Layer.FAMILY and "model" in model else named
        yield reader.read(model, layer, line=line)


def read_names(directory: Path) -> list[str]:
    """Lists the models that a folder names: those to be offered, and those with a record.

    For whoever needs names alone, and quickly; of a mistake in the folder nothing is said here.
    """
    names: list[str] = []
    path = directory / "attributes.toml"
    with contextlib.suppress(OSError, ValueError):
        table = tomli.loads(read_file(path).decode())
        named = [table.get("default_model", ""), *table.get("names", ())]
        names = [name for name in named if isinstance(name, str) and name]
    records = sorted(path.stem for path in (directory / "models").glob("*.toml"))
    return list(dict.fromkeys((*names, *records)))


def read_overrides(overrides: Overrides, findings: list[Finding]) -> Iterator[Rule]:
    """Reads what the user wrote; mistakes are appended to the findings."""
    document = Document(file=overrides.place, text=overrides.text)
    reader = RuleReader(document=document, findings=findings, source="the user's configuration")
    yield from _read_tables(reader, overrides.table, default=Layer.USER, named=Layer.USER)
