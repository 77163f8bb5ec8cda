"""What is known about one model, and how each fact came to be known."""

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
    """Whether a model can do something. Unknown is not no: the request is sent and seen."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class AttributeLayer(enum.StrEnum):
    """Who set a value, from the weakest to the strongest."""

    SHIPPED = "key table"
    """The definition of a control that the data mention by its default alone."""
    DEFAULT = "default"
    """The provider's defaults."""
    FAMILY = "family"
    """A family whose pattern the model's name matches."""
    MODEL = "model"
    """The record of this very model."""
    VENDOR = "vendor"
    """Learnt from the vendor's service, or from the model itself."""
    USER = "user"
    """The user's own configuration."""


@frozen(kw_only=True)
class Provenance:
    """Where a value is from.

    Attributes:
        layer: Who set it.
        name: Which one of the layer: a family's pattern, a model's name; else empty.
        file: Where that is written.
        line: Of the rule in the file, counted from 1; 0 where there are no lines.
        source: What the writer of the file had it from.
        date: When the writer read it there, as ``2026-11-21``.
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
    """A value and where it is from.

    Attributes:
        key: As the explanation shows it, such as ``temperature.maximum``.
        value: Absent where a layer removed it.
        control: The control that the value helps to define; empty where it is a fact.
        overrode: What held before, latest first.
    """

    key: str
    value: JsonValue | Absence
    provenance: Provenance
    control: str = ""
    overrode: tuple[TracedValue, ...] = ()

    @property
    def history(self) -> tuple[TracedValue, ...]:
        """The value and what it overrode, as one list without lists inside."""
        return (attrs.evolve(self, overrode=()), *self.overrode)


@frozen(kw_only=True)
class AttributeRow:
    """One row of ``vibe models show``.

    Attributes:
        key: An attribute, a capability or a control.
        value: Absent where a layer removed it. For a control a table of those fields that come
            from the same place; a control that several layers define takes several rows.
        overrode: What held before, latest first.
    """

    key: str
    value: JsonValue | Absence
    layer: str
    file: str
    source: str
    date: str
    overrode: tuple[TracedValue, ...]


@frozen(kw_only=True)
class ModelAttributes:
    """What is known about one model.

    Attributes:
        address: Which model.
        genus: What it is for.
        controls: What a caller may set, by name.
        traced: Every value with its history, in the order of the explanation.
    """

    address: ModelAddress
    genus: Genus
    controls: tuple[Control, ...]
    traced: tuple[TracedValue, ...]

    @cached_property
    def _by_key(self) -> Mapping[str, TracedValue]:
        return {traced.key: traced for traced in self.traced}

    def access_value(self, key: str) -> JsonValue | Absence:
        """Returns an attribute, such as ``context_window_tokens``; absent is not known."""
        traced = self._by_key.get(key)
        return ABSENT if traced is None else traced.value

    def access_provenance(self, key: str) -> Provenance | None:
        """Tells where the value of a key is from; ``None`` where nobody set it."""
        traced = self._by_key.get(key)
        return None if traced is None else traced.provenance

    def access_capability(self, name: str) -> Capability:
        """Tells whether the model can do something, such as ``supports_images``."""
        value = self.access_value(resolve_spelling(name))
        return Capability.UNKNOWN if value is ABSENT else Capability(str(value))

    @property
    def capabilities(self) -> Mapping[str, Capability]:
        """All capabilities by name: those of the key table, and what else the data know."""
        named = dict.fromkeys((*CAPABILITIES, *(t.key for t in self.traced)))
        return {
            name: self.access_capability(name) for name in named if name.startswith("supports_")
        }

    def access_control(self, name: str) -> Control | None:
        """Returns the control of this name, ``None`` where the model has none."""
        return next((control for control in self.controls if control.name == name), None)

    @cached_property
    def control_defaults(self) -> Mapping[str, JsonValue]:
        """The defaults of those controls that have one."""
        return {
            control.name: control.default
            for control in self.controls
            if control.default is not ABSENT
        }

    def explain(self) -> tuple[AttributeRow, ...]:
        """Lists every value with its layer, file, source and date, and what it overrode."""
        groups: dict[object, list[TracedValue]] = {}
        for traced in self.traced:
            origin = (traced.control, traced.provenance) if traced.control else traced.key
            groups.setdefault(origin, []).append(traced)
        return tuple(_explain(group) for group in groups.values())


def _explain(group: Sequence[TracedValue]) -> AttributeRow:
    """Makes one row of a value, or of the fields of a control that are from one place."""
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
        overrode=tuple(earlier for traced in group for earlier in traced.overrode),
    )
