"""The other side's attributes of its models, as rules that apply here as well.

They count as reported by the vendor: stronger than the shipped data, weaker than the user's own.
Each value keeps the source that it has there.
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

_TOLD: Final = ("yes", "no", "unknown")


def compose_rules(told: ReportedModel, model: str, provider: str) -> tuple[Rule, ...]:
    """Return the other side's attributes of a model, one rule for each value.

    Args:
        model: Its name here, which may differ from its address there.
        provider: The provider that reported them.
    """
    # The kind of a control must come before its other fields.
    values = sorted(told.values, key=lambda each: not each.key.endswith(".kind"))
    return tuple(
        Rule(
            provenance=_trace(each, provider),
            model=model,
            values={} if each.control else {each.key: _direct(each)},
            controls={each.control: {"merge": {_name_field(each): _direct(each)}}}
            if each.control
            else {},
        )
        for each in values
    )


def summarize(models: Sequence[ReportedModel]) -> list[SurveyedModel]:
    """Return the models in the format of all vendors' lists."""
    return [_summarize(each) for each in models]


def _summarize(told: ReportedModel) -> SurveyedModel:
    known: dict[str, Any] = {each.key: each.value for each in told.values if not each.removed}
    title = known.get("title")
    return SurveyedModel(
        name=told.address,
        title=title if is_text(title) else None,
        context_window_tokens=_count(known.get("context_window_tokens")),
        output_limit_tokens=_count(known.get("output_limit_tokens")),
        capabilities={
            key: value
            for key, value in known.items()
            if key.startswith("supports_") and value in _TOLD
        },
    )


def _count(value: Any) -> int | None:
    return value if COUNT.is_right(value) else None


def _trace(told: ReportedValue, provider: str) -> Provenance:
    layer = " ".join(filter(None, (told.layer, told.name)))
    return Provenance(
        layer=AttributeLayer.VENDOR,
        name=f"({provider}: {layer})" if layer else f"({provider})",
        source=told.source or f"the models that {provider} lists",
        date=told.date,
    )


def _name_field(told: ReportedValue) -> str:
    return told.key.partition(".")[2] or "default"


def _direct(told: ReportedValue) -> JsonObject:
    """Wrap a value, so that one that looks like a directive is not treated as one."""
    return {"remove": True} if told.removed else {"replace": told.value}
