"""Integration of the rules about a model into its attributes.

Rules are applied in this order, and later values override earlier ones: the provider's defaults,
then each matching family in the order of the file, then the record of the model, then the data
reported by the vendor, then the user's configuration. ``merging`` describes how a value can extend
an earlier one instead of replacing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import attrs

from vibe_llms.exceptions import ConfigurationError, Finding, UnknownNameError, end_sentence
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import AttributeLayer, ModelAttributes, Provenance, TracedValue
from vibe_llms.models.controls import Control
from vibe_llms.models.definitions import read_control
from vibe_llms.models.genera import Genus
from vibe_llms.models.keys import KEYS_BY_NAME, KeyRole, classify_key
from vibe_llms.models.merging import MergeError, merge_values, read_directive
from vibe_llms.models.rules import Rule, RuleReader
from vibe_llms.tables.documents import Document
from vibe_llms.tables.paths import write_path
from vibe_llms.tables.reading import TableReader

_PRECEDENCE = {layer: strength for strength, layer in enumerate(AttributeLayer)}


def _sort_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Sort by layer, the weakest first; keep the order within a layer."""
    return tuple(sorted(rules, key=lambda rule: _PRECEDENCE[rule.provenance.layer]))


@frozen(kw_only=True)
class ModelsIntegrator:
    """Rules about a provider's models, including unknown ones, from its data and the user.

    Attributes:
        provider: The provider's name.
        rules: Sorted by layer; within a layer in the order of the files.
        default_model: The model to use if only the provider is named; empty for none.
        names: Models to offer besides those with a record.
        prefixes: Prefixes that clouds and regions put before a model's name, such as ``anthropic.``
            in ``eu.anthropic.claude-opus-5``: the rules about the rest of the name apply.
        needs_prefix: Whether the provider has no models without a prefix.
    """

    provider: str
    rules: tuple[Rule, ...] = attrs.field(default=(), converter=_sort_rules)
    default_model: str = ""
    names: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    needs_prefix: bool = False

    def integrate(
        self,
        model: str = "",
        *,
        facts: Mapping[str, JsonValue] | None = None,
        facts_source: str = "the vendor",
    ) -> ModelAttributes:
        """Return the attributes of a model.

        Args:
            model: Its name as the provider spells it; empty for the default model. It need not be
                known: it inherits from the families that match its name.
            facts: Attributes that the vendor's service or the model's own file reported, with the
                keys of an attribute file.
            facts_source: Their source, for the explanation.

        Raises:
            ConfigurationError: The rules about the model contradict each other.
            UnknownNameError: The name is empty and there is no default model.
        """
        address = ModelAddress(self.provider, model or self.access_default_model())
        rules = self.find_rules(*self._list_names(address.name))
        if facts:
            rules = _sort_rules((*rules, _produce_vendor_rule(facts, facts_source)))
        fold = _Fold(address=address, defined_controls=self._defined_controls)
        for rule in rules:
            fold.apply(rule)
        return fold.finish()

    def find_rules(self, *names: str) -> tuple[Rule, ...]:
        """Return the rules about a model with one of these names, the weakest first.

        Rules with an exact name, which may be thousands, are looked up; the others are tested one
        by one.
        """
        indices = set(self._rules_by_name.get("", ()))
        for name in names:
            indices.update(self._rules_by_name.get(name, ()))
        # Restore their order, as a later rule wins over an earlier one.
        rules = [self.rules[index] for index in sorted(indices)]
        return tuple(
            rule for rule in rules if any(rule.applies_to(self.provider, name) for name in names)
        )

    def _list_names(self, model: str) -> tuple[str, ...]:
        """Return the names under which rules list a model: its own, and that without a prefix."""
        unprefixed = [model.rpartition(prefix)[2] for prefix in self.prefixes if prefix in model]
        return (model, *filter(None, unprefixed))

    def access_default_model(self) -> str:
        """Return the name of the provider's default model.

        Raises:
            UnknownNameError: The provider has no default model.
        """
        if self.default_model:
            return self.default_model
        raise UnknownNameError(
            kind="model",
            name=self.provider,
            detail=f"The provider {self.provider!r} has no default model.",
            remedy=f"Name one, as {self.provider}:model, or set model in "
            f"[providers.{self.provider}]; vibe models list --provider {self.provider} --refresh "
            "lists the models.",
        )

    def survey_models(self) -> tuple[str, ...]:
        """List the models that are offered or have a record, the default model first."""
        recorded_names = [
            rule.model
            for rule in self.rules
            if rule.model
            and (rule.provenance.layer is AttributeLayer.MODEL or rule.provider == self.provider)
        ]
        first = [self.default_model] if self.default_model else []
        return tuple(dict.fromkeys((*first, *self.names, *sorted(recorded_names))))

    def knows(self, model: str) -> bool:
        """Return whether a record or a family of the provider's own data matches the name."""
        if self.needs_prefix and not any(prefix in model for prefix in self.prefixes):
            return False
        model_layers = (AttributeLayer.FAMILY, AttributeLayer.MODEL)
        return any(rule.provenance.layer in model_layers for rule in self.find_rules(model))

    @cached_property
    def _rules_by_name(self) -> dict[str, list[int]]:
        """Indices of rules by the exact name of their model; all other rules are under ""."""
        indices: dict[str, list[int]] = {}
        for index, rule in enumerate(self.rules):
            name = rule.model if rule.pattern is None else ""
            indices.setdefault(name, []).append(index)
        return indices

    @cached_property
    def _defined_controls(self) -> frozenset[str]:
        return frozenset(name for rule in self.rules for name in rule.controls)


def _produce_vendor_rule(facts: Mapping[str, JsonValue], source: str) -> Rule:
    tables = TableReader(Document(source, "", facts).locate)
    rule = RuleReader(place=source, tables=tables, source=source).read(facts, AttributeLayer.VENDOR)
    tables.finish()
    # The data are not from a file; the reader needs a name only for its findings.
    return attrs.evolve(rule, provenance=attrs.evolve(rule.provenance, file=""))


@define(kw_only=True)
class _Fold:
    """State of an integration, to which one rule after the other is applied.

    Attributes:
        address: The address of the model.
        defined_controls: Names of all controls that the provider's data define.
        state: The present values by key.
        controls: The fields of each control that a rule has set, by the control's name.
        findings: Collects the errors.
    """

    address: ModelAddress
    defined_controls: frozenset[str]
    state: dict[str, TracedValue] = attrs.field(factory=dict)
    controls: dict[str, list[str]] = attrs.field(factory=dict)
    findings: list[Finding] = attrs.field(factory=list)

    def apply(self, rule: Rule) -> None:
        for name, definition in rule.controls.items():
            self.define(name, definition, rule.trace(name))
        for key, value in rule.values.items():
            provenance = rule.trace(key)
            if classify_key(key, self.defined_controls) is not KeyRole.CONTROL:
                self.put(key, value, provenance)
            elif not (rule.is_general and self.is_removed(key)):
                # A default for all models does not add a control to a model known to lack it.
                self.define(key, {"merge": {"default": value}}, provenance)

    def define(self, name: str, definition: JsonValue, provenance: Provenance) -> None:
        """Apply a rule's definition of a control."""
        directive, content = read_directive(definition)
        fields = content if isinstance(content, Mapping) else {}
        known_fields = self.controls.setdefault(name, ["kind", "default"])
        known_fields += [field for field in fields if field not in known_fields]
        if directive == "merge":
            if self.access(name, "kind") is ABSENT and "kind" not in fields:
                self._put_shipped_definition(name)
            for field, value in fields.items():
                self.put(_make_key(name, field), value, provenance, control=name)
            return
        for field in known_fields:
            if field in fields:
                # In a directive, as the value itself could look like one.
                self.put(
                    _make_key(name, field), {"replace": fields[field]}, provenance, control=name
                )
            elif directive == "remove" or self.access(name, field) is not ABSENT:
                self.put(_make_key(name, field), {"remove": True}, provenance, control=name)

    def put(self, key: str, value: JsonValue, provenance: Provenance, *, control: str = "") -> None:
        """Set one value, which may be a directive, and keep the earlier value."""
        earlier = self.state.get(key)
        try:
            merged = merge_values(ABSENT if earlier is None else earlier.value, value)
        except MergeError as error:
            self._report(f"{key!r}: {error}", provenance)
            return
        self.state[key] = TracedValue(
            key=key,
            value=merged,
            provenance=provenance,
            control=control,
            earlier_values=() if earlier is None else earlier.history,
        )

    def access(self, name: str, field: str) -> JsonValue | Absence:
        traced = self.state.get(_make_key(name, field))
        return ABSENT if traced is None else traced.value

    def is_removed(self, name: str) -> bool:
        traced = self.state.get(_make_key(name, "kind"))
        return traced is not None and traced.value is ABSENT

    def finish(self) -> ModelAttributes:
        controls = [
            self._produce_control(name, fields) for name, fields in sorted(self.controls.items())
        ]
        if self.findings:
            raise ConfigurationError(findings=tuple(self.findings))
        traced = self.state.get("genus")
        is_known = traced is not None and traced.value in list(Genus)
        return ModelAttributes(
            address=self.address,
            genus=Genus(str(traced.value)) if traced and is_known else Genus.CONVERSER,
            controls=tuple(control for control in controls if control is not None),
            traced_values=tuple(sorted(self.state.values(), key=_rank)),
        )

    def _produce_control(self, name: str, known_fields: list[str]) -> Control | None:
        values = {field: self.access(name, field) for field in known_fields}
        fields = {field: value for field, value in values.items() if value is not ABSENT}
        if not fields:
            return None
        reader = TableReader(lambda path: (name, 0, 0, write_path(path)))
        control = read_control(name, fields, reader)
        for finding in reader.findings:
            field = finding.path.partition(".")[0]
            traced = self.state.get(_make_key(name, field)) or self.state.get(name)
            # The error may be about the whole control: then report any of its fields.
            cause = traced or next(self.state[_make_key(name, field)] for field in fields)
            path = ".".join(filter(None, (name, finding.path)))
            self._report(f"controls.{path}: {finding.message}", cause.provenance)
        return control

    def _put_shipped_definition(self, name: str) -> None:
        """Set the definition of a control from the table of keys, if it has one."""
        key = KEYS_BY_NAME.get(name)
        if key is None:
            return
        known_fields = self.controls[name]
        known_fields += [field for field in key.definition if field not in known_fields]
        shipped = Provenance(layer=AttributeLayer.SHIPPED)
        for field, value in key.definition.items():
            self.put(_make_key(name, field), {"replace": value}, shipped, control=name)

    def _report(self, message: str, provenance: Provenance) -> None:
        self.findings.append(
            Finding(
                place=provenance.file or str(provenance),
                line=provenance.line,
                message=f"{self.address}: {end_sentence(message)}",
            )
        )


def _make_key(control: str, field: str) -> str:
    """Return the key of a control's field: ``temperature`` is the default of ``temperature``."""
    return control if field == "default" else f"{control}.{field}"


def _rank(traced: TracedValue) -> tuple[bool, bool, str]:
    """Sort facts before capabilities before controls."""
    return bool(traced.control), traced.key.startswith("supports_"), traced.key
