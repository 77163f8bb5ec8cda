"""Nodes, edges and subgraphs under construction."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.mermaid import statements as syntax
from vibe_llms.mermaid.diagrams import Edge, Node, Subgraph
from vibe_llms.mermaid.labels import Label, LabelKind, reveal_entities
from vibe_llms.mermaid.links import LONGEST
from vibe_llms.mermaid.shapes import find_shape_fault
from vibe_llms.mermaid.spans import Span, strip_space
from vibe_llms.mermaid.yaml_scalars import read_number, write_key


class Problem(Exception):
    """A well-formed statement with an invalid meaning; caught in the builder."""

    def __init__(self, place: Span, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.message = message


@define
class NodeDraft:
    """A node under construction."""

    id: str
    label: Label
    shape: str = ""
    classes: list[str] = attrs.field(factory=list)
    styles: list[str] = attrs.field(factory=list)
    properties: dict[str, str] = attrs.field(factory=dict)
    attributes: dict[str, str] = attrs.field(factory=dict)
    link: str = ""
    target: str = ""
    has_callback: bool = False
    uses: list[Span] = attrs.field(factory=list)

    def describe(self, values: Mapping[str, object], place: Span) -> None:
        """Apply attributes. Values that are false in JavaScript count as absent."""
        raw_label = values.get("label")
        values = {name: value for name, value in values.items() if _is_true(value)}
        if (shape := values.get("shape")) is not None:
            if fault := find_shape_fault(shape):
                raise Problem(place, fault)
            self.shape = str(shape)
        label = values.get("label")
        if label is not None:
            words = {"markdown", "string", "text"}
            kind = values.get("labelType")
            kind = LabelKind(kind) if isinstance(kind, str) and kind in words else None
            self.label = Label(to_text(label), kind or LabelKind.MARKDOWN, place)
        for name in ("icon", "img"):
            if name in values:
                self.attributes[name] = to_text(values[name])
                # Mermaid trims this label, which must be a text; null is exempt by optional
                # chaining.
                if not isinstance(raw_label, str | None):
                    raise Problem(place, "The label beside an icon or image must be a text.")
                if self.label.text == self.id and not (raw_label and strip_space(raw_label)):
                    self.label = attrs.evolve(self.label, text="")
        for name in ("form", "pos", "constraint"):
            if name in values:
                self.attributes[name] = to_text(values[name])
        for name in ("w", "h"):
            if name in values:
                self.attributes[name] = to_text(_to_number(values[name]))

    def finish(self) -> Node:
        """Return the node as a value."""
        return Node(
            id=self.id,
            label=self.label,
            shape=self.shape,
            classes=tuple(self.classes),
            styles=tuple(self.styles),
            properties=tuple(self.properties.items()),
            attributes=tuple(self.attributes.items()),
            link=self.link,
            target=self.target,
            has_callback=self.has_callback,
            uses=tuple(self.uses),
        )


@define(kw_only=True)
class EdgeDraft:
    """An edge under construction."""

    id: str
    has_own_id: bool
    start: syntax.NodeUse
    end: syntax.NodeUse
    link: syntax.Link
    classes: list[str] = attrs.field(factory=list)
    styles: tuple[str, ...] = ()
    interpolation: str = ""
    animate: str = ""
    animation: str = ""
    step: int | None = None

    def describe(self, values: Mapping[str, object]) -> None:
        """Apply attributes."""
        if "animate" in values:
            self.animate = to_text(values["animate"])
        if "animation" in values:
            self.animation = to_text(values["animation"])
        if "curve" in values:
            self.interpolation = to_text(values["curve"])
        step = values.get("step")
        if isinstance(step, (int, float)) and not isinstance(step, bool) and step % 1 == 0 < step:
            self.step = int(step)

    def finish(self) -> Edge:
        """Return the edge as a value."""
        length = self.link.length
        return Edge(
            id=self.id,
            has_own_id=self.has_own_id,
            start=self.start.id,
            end=self.end.id,
            type=self.link.type,
            stroke=self.link.stroke,
            length=None if length is None else min(length, LONGEST),
            label=self.link.label,
            classes=tuple(self.classes),
            styles=self.styles,
            interpolation=self.interpolation,
            animate=self.animate,
            animation=self.animation,
            step=self.step,
            place=self.link.place,
            start_place=self.start.place,
            end_place=self.end.place,
        )


@define
class SubgraphDraft:
    """A subgraph under construction."""

    id: str
    statement: syntax.SubgraphStatement
    members: list[str]
    direction: str
    classes: list[str] = attrs.field(factory=list)
    attributes: dict[str, str] = attrs.field(factory=dict)

    def describe(self, values: Mapping[str, object]) -> None:
        """Apply attributes."""
        self.attributes.update({name: to_text(value) for name, value in values.items()})

    def finish(self) -> Subgraph:
        """Return the subgraph as a value."""
        return Subgraph(
            id=self.id,
            title=self.statement.title,
            members=tuple(self.members),
            direction=self.direction,
            classes=tuple(self.classes),
            attributes=tuple(self.attributes.items()),
            place=self.statement.place,
            head=self.statement.head,
        )


def _is_true(value: object) -> bool:
    """True if JavaScript treats a value as true, including empty collections, but not NaN."""
    if isinstance(value, float) and math.isnan(value):
        return False
    return isinstance(value, (list, dict)) or bool(value)


def _to_number(value: object) -> float:
    return float(value) if isinstance(value, bool) else read_number(to_text(value))


def to_text(value: object) -> str:
    """Return the text of an attribute's value as in JavaScript."""
    if isinstance(value, list):
        return ",".join(map(to_text, value))
    if value is None:
        return ""
    return "[object Object]" if isinstance(value, dict) else reveal_entities(write_key(value))
