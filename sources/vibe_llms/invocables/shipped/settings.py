"""Settings of an ensemble: values that are checked as they are made, with all mistakes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import attrs

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.nearness import end_among
from vibe_llms.plugins.specification import EnsembleContext

Check = Callable[[Any], str | None]
"""Returns what a value must be, where it is not that."""

_CHECK: Final = "vibe_check"
_S = TypeVar("_S", bound="EnsembleSettings")


def setting(default: Any, check: Check, **options: Any) -> Any:
    """Declares a setting: its default, and what it must be."""
    return attrs.field(default=default, metadata={_CHECK: check}, **options)


def check_count(value: Any) -> str | None:
    """Whole numbers from 1."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return None if is_count else "a whole number of at least 1"


def check_seconds(value: Any) -> str | None:
    """Times above nothing."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if is_number and 0 < value < float("inf") else "a number of seconds above 0"


def check_boolean(value: Any) -> str | None:
    """Yes and no."""
    return None if isinstance(value, bool) else "true or false"


def check_texts(value: Any) -> str | None:
    """Lists of texts none of which is empty."""
    is_list = isinstance(value, list | tuple) and all(
        isinstance(each, str) and each.strip() and "\0" not in each for each in value
    )
    return None if is_list else "a list of texts that are not empty"


@attrs.frozen(kw_only=True)
class EnsembleSettings:
    """What all settings share.

    Attributes:
        name: Of the ensemble; an error names its table.

    Raises:
        ConfigurationError: With all the mistakes in them.
    """

    name: str

    def __attrs_post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
        if findings := _check_values(type(self), self.name, values):
            raise ConfigurationError(findings=findings)


def read_settings(kind: type[_S], context: EnsembleContext, **given: Any) -> _S:
    """Makes the settings of an ensemble of what the user configured.

    Args:
        given: What is no setting of the user's.

    Raises:
        ConfigurationError: With all the mistakes in them.
    """
    fields = attrs.fields_dict(kind)
    known = [name for name, field in fields.items() if _CHECK in field.metadata]
    findings = tuple(
        Finding(
            place=f"ensembles.{context.name}",
            message=f"{name!r} is no setting of this ensemble{end_among(name, known)}",
        )
        for name in context.settings
        if name not in known
    )
    values = {name: value for name, value in context.settings.items() if name in known}
    findings += _check_values(kind, context.name, values)
    if findings:
        raise ConfigurationError(findings=findings)
    return kind(name=context.name, **values, **given)


def _check_values(
    kind: type[EnsembleSettings], name: str, values: Mapping[str, Any]
) -> tuple[Finding, ...]:
    findings = []
    for field in attrs.fields(kind):
        check = field.metadata.get(_CHECK)
        wanted = check(values[field.name]) if check and field.name in values else None
        if wanted:
            place = f"ensembles.{name}.{field.name}"
            shown = repr(values[field.name])
            shown = shown if len(shown) <= 80 else f"{shown[:80]}…"
            findings.append(Finding(place=place, message=f"It must be {wanted}, not {shown}."))
    return tuple(findings)
