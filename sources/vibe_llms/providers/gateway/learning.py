"""Conversion of the attributes that the other side reports for its models to rules for this side.

These rules count as reported by the vendor: they override the built-in data, and are overridden by
the user's data. Each value keeps the source that the other side gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from vibe_llms.dialects.converse.calling.surveys import ReportedModel, ReportedValue
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.models.attributes import AttributeLayer, Provenance
from vibe_llms.models.rules import Rule
from vibe_llms.providers.surveys import SurveyedModel
from vibe_llms.tables.kinds import COUNT, is_text

_CAPABILITY_WORDS: Final = ("yes", "no", "unknown")


def compose_rules(reported: ReportedModel, model: str, provider: str) -> tuple[Rule, ...]:
    """Return the attributes that the other side reports for a model, one rule for each value.

    Args:
        model: The model's name on this side, which may differ from its address on the other.
        provider: The provider that reported them.
    """
    # The kind of a control must come before its other fields.
    values = sorted(reported.values, key=lambda each: not each.key.endswith(".kind"))
    return tuple(
        Rule(
            provenance=_produce_provenance(each, provider),
            model=model,
            values={} if each.control else {each.key: _compose_directive(each)},
            controls={each.control: {"merge": {_name_field(each): _compose_directive(each)}}}
            if each.control
            else {},
        )
        for each in values
    )


def summarize(models: Sequence[ReportedModel]) -> list[SurveyedModel]:
    """Return the models in the format of all vendors' lists."""
    return [_summarize(each) for each in models]


def _summarize(reported: ReportedModel) -> SurveyedModel:
    known: dict[str, Any] = {each.key: each.value for each in reported.values if not each.removed}
    title = known.get("title")
    return SurveyedModel(
        name=reported.address,
        title=title if is_text(title) else None,
        context_window_tokens=_count(known.get("context_window_tokens")),
        output_limit_tokens=_count(known.get("output_limit_tokens")),
        capabilities={
            key: value
            for key, value in known.items()
            if key.startswith("supports_") and value in _CAPABILITY_WORDS
        },
    )


def _count(value: Any) -> int | None:
    return value if COUNT.is_valid(value) else None


def _produce_provenance(value: ReportedValue, provider: str) -> Provenance:
    layer = " ".join(filter(None, (value.layer, value.name)))
    return Provenance(
        layer=AttributeLayer.VENDOR,
        name=f"({provider}: {layer})" if layer else f"({provider})",
        source=value.source or f"the models that {provider} lists",
        date=value.date,
    )


def _name_field(value: ReportedValue) -> str:
    return value.key.partition(".")[2] or "default"


def _compose_directive(value: ReportedValue) -> JsonObject:
    """Wrap a value, so that it is not treated as a directive even if it looks like one."""
    return {"remove": True} if value.removed else {"replace": value.value}
