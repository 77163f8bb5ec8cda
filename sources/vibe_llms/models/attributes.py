"""Attributes of one model, and the source of each."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from functools import cached_property

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.controls import Control
from vibe_llms.models.genera import Genus
from vibe_llms.models.keys import CAPABILITIES, resolve_spelling


class Capability(enum.StrEnum):
    """Support of a capability by a model. If it is ``UNKNOWN``, requests that need it are sent."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class AttributeLayer(enum.StrEnum):
    """Origin of a value, in order of precedence: a later layer overrides an earlier one."""

    SHIPPED = "key table"
    """Definition of a control for which the data give only a default."""
    DEFAULT = "default"
    """The provider's defaults."""
    FAMILY = "family"
    """A family whose pattern the model's name matches."""
    MODEL = "model"
    """The record of this model."""
    VENDOR = "vendor"
    """Reported by the vendor's service, or by the model itself."""
    USER = "user"
    """The user's own configuration."""


@frozen(kw_only=True)
class Provenance:
    """The source of a value.

    Attributes:
        layer: The layer that sets it.
        name: The part of the layer: a family's pattern, a model's name; otherwise empty.
        file: The file that sets the value.
        line: The line of the rule in the file, counted from 1; 0 if there are no lines.
        source: The source that the author of the file gives.
        date: When the author read the source, as ``2026-11-21``.
    """

    layer: AttributeLayer
    name: str = ""
    file: str = ""
    line: int = 0
    source: str = ""
    date: str = ""

    def __str__(self) -> str:
        return f"{self.layer} {self.name}" if self.name else str(self.layer)


@frozen(kw_only=True)
class TracedValue:
    """A value and its source.

    Attributes:
        key: The key in explanations, such as ``temperature.maximum``.
        value: Absent if a layer removed it.
        control: The control whose definition the value is part of; empty for a fact.
        earlier_values: The values of earlier layers that this value overrides, the latest first.
    """

    key: str
    value: JsonValue | Absence
    provenance: Provenance
    control: str = ""
    earlier_values: tuple[TracedValue, ...] = ()

    @property
    def history(self) -> tuple[TracedValue, ...]:
        """The value and the values that it overrides, as one flat list."""
        return (attrs.evolve(self, earlier_values=()), *self.earlier_values)


@frozen(kw_only=True)
class AttributeRow:
    """One row of ``vibe models show``.

    Attributes:
        key: An attribute, a capability or a control.
        value: Absent if a layer removed it. For a control, a table of the fields with the same
            source; a control that several layers define takes several rows.
        layer: The layer of the value, and the part of the layer.
        file: The file that sets the value.
        source: The source that the author of the file gives.
        date: When the author read the source.
        earlier_values: The values of earlier layers that this value overrides, the latest first.
    """

    key: str
    value: JsonValue | Absence
    layer: str
    file: str
    source: str
    date: str
    earlier_values: tuple[TracedValue, ...]


@frozen(kw_only=True)
class ModelAttributes:
    """Attributes of one model.

    Attributes:
        address: The address of the model.
        genus: The purpose of the model.
        controls: The parameters that a caller may set, by name.
        traced_values: Every value with its history, in the order of the explanation.
    """

    address: ModelAddress
    genus: Genus
    controls: tuple[Control, ...]
    traced_values: tuple[TracedValue, ...]

    @cached_property
    def _by_key(self) -> Mapping[str, TracedValue]:
        return {traced.key: traced for traced in self.traced_values}

    def access_value(self, key: str) -> JsonValue | Absence:
        """Return an attribute, such as ``context_window_tokens``; ``ABSENT`` if unknown."""
        traced = self._by_key.get(key)
        return ABSENT if traced is None else traced.value

    def access_provenance(self, key: str) -> Provenance | None:
        """Return the source of a key's value; ``None`` if it is not set."""
        traced = self._by_key.get(key)
        return None if traced is None else traced.provenance

    def access_capability(self, name: str) -> Capability:
        """Return whether the model can do something, such as ``supports_images``."""
        value = self.access_value(resolve_spelling(name))
        return Capability.UNKNOWN if value is ABSENT else Capability(str(value))

    @property
    def capabilities(self) -> Mapping[str, Capability]:
        """All capabilities by name: known ones from the key table, and further ones in the data."""
        keys = dict.fromkeys((*CAPABILITIES, *(traced.key for traced in self.traced_values)))
        return {key: self.access_capability(key) for key in keys if key.startswith("supports_")}

    def access_control(self, name: str) -> Control | None:
        """Return the control of this name; ``None`` if the model does not have it."""
        return next((control for control in self.controls if control.name == name), None)

    @cached_property
    def control_defaults(self) -> Mapping[str, JsonValue]:
        """The defaults of the controls that have a default, by name."""
        return {
            control.name: control.default
            for control in self.controls
            if control.default is not ABSENT
        }

    def explain(self) -> tuple[AttributeRow, ...]:
        """List every value with its layer, file, source, date, and the values it overrides."""
        groups: dict[object, list[TracedValue]] = {}
        for traced in self.traced_values:
            row = (traced.control, traced.provenance) if traced.control else traced.key
            groups.setdefault(row, []).append(traced)
        return tuple(_explain(group) for group in groups.values())


def _explain(group: Sequence[TracedValue]) -> AttributeRow:
    """Make one row of a value, or of the fields of a control that have the same source."""
    first = group[0]
    value = first.value
    if first.control:
        fields = {
            traced.key.partition(".")[2] or "default": traced.value
            for traced in group
            if traced.value is not ABSENT
        }
        value = fields or ABSENT
    return AttributeRow(
        key=first.control or first.key,
        value=value,
        layer=str(first.provenance),
        file=first.provenance.file,
        source=first.provenance.source,
        date=first.provenance.date,
        earlier_values=tuple(earlier for traced in group for earlier in traced.earlier_values),
    )
