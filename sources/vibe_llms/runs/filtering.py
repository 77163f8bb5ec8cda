"""Conditions on runs, for lists and searches."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple, get_args

import attrs

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.runs.summaries import RunKind, RunSummary


class RunFacts(NamedTuple):
    """Facts of a run that change only with its log.

    Attributes:
        kind: Whether it is a conversation or a flow.
        model: Address of its model.
        cents: Its cost in US cents.
        is_failed: Whether it has ended badly.
    """

    kind: RunKind
    model: str
    cents: float | None
    is_failed: bool = False


@frozen(kw_only=True)
class RunFilter:
    """Conditions on runs; a run matches if it meets all of them. Case does not matter.

    Attributes:
        query: Words; each occurs in the title, the id, the model or a tag of the run.
        kind: Kind of the run; empty for both.
        model: Part of the model's address.
        tag: One of its tags; empty for any.
        since: Earliest time of its last event.
        until: Latest time of its last event.
        min_cents: Lowest cost in US cents; runs without a price match only 0.
        failed: Whether it has ended badly: with an error, at a limit, or without its goal. ``None``
            for both.
    """

    query: str = ""
    kind: RunKind | str = ""
    model: str = ""
    tag: str = ""
    since: datetime | None = None
    until: datetime | None = None
    min_cents: float = 0.0
    failed: bool | None = None

    @property
    def needs_texts(self) -> bool:
        """True if titles or tags matter, which are not in the logs of runs."""
        return bool(self.query.strip() or self.tag)

    def is_in_time(self, updated: datetime) -> bool:
        """Return whether the time of the last event matches."""
        return (self.since is None or updated >= self.since) and (
            self.until is None or updated <= self.until
        )

    def matches(self, facts: RunFacts) -> bool:
        """Return whether kind, model, cost and success match."""
        return (
            self.kind in ("", facts.kind)
            and self.model.casefold() in facts.model.casefold()
            and (facts.cents or 0.0) >= self.min_cents
            and self.failed in (None, facts.is_failed)
        )

    def matches_texts(self, texts: Iterable[str], tags: Collection[str]) -> bool:
        """Return whether the query and the tag match.

        Args:
            texts: Title, id and model of the run.
            tags: Its tags.
        """
        if self.tag and self.tag.casefold() not in (each.casefold() for each in tags):
            return False
        whole = "\n".join((*texts, *tags)).casefold()
        return all(word in whole for word in self.query.casefold().split())

    def export(self) -> dict[str, str]:
        """Return the conditions that are set, as texts by name."""
        fields = attrs.asdict(self, recurse=False)
        return {
            name: value.isoformat() if isinstance(value, datetime) else str(value)
            for name, value in {**fields, "failed": _FLAGS.get(self.failed)}.items()
            if value
        }


_FLAGS: Final[Mapping[bool | None, str]] = {True: "true", False: "false"}


def read_filter(fields: Mapping[str, str]) -> RunFilter:
    """Read a filter from texts by name; other names are ignored.

    Raises:
        RequestError: A value is invalid; names it.
    """
    kind = fields.get("kind", "")
    if "kind" in fields and kind not in get_args(RunKind):
        raise _refuse("kind", f"Unknown kind {kind[:40]!r}. Use {' or '.join(get_args(RunKind))}.")
    failed = fields.get("failed")
    if failed is not None and failed not in _FLAGS.values():
        raise _refuse("failed", f"Invalid value {failed[:40]!r}. Use true or false.")
    return RunFilter(
        query=fields.get("query", ""),
        kind=kind,
        model=fields.get("model", ""),
        tag=fields.get("tag", ""),
        since=_read_moment("since", fields.get("since")),
        until=_read_moment("until", fields.get("until")),
        min_cents=_read_cents(fields.get("min_cents", "0")),
        failed=None if failed is None else failed == "true",
    )


def _read_moment(name: str, text: str | None) -> datetime | None:
    """Read a moment; one without a time zone is in UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        detail = f"Invalid time {text[:40]!r}. Use ISO 8601, such as 2026-11-29T14:00:00Z."
        raise _refuse(name, detail) from None


def _read_cents(text: str) -> float:
    try:
        cents = float(text)
    except ValueError:
        cents = math.nan
    if not (math.isfinite(cents) and cents >= 0):
        raise _refuse("min_cents", f"Invalid cost {text[:40]!r}. Use US cents, 0 or more.")
    return cents


def _refuse(name: str, detail: str) -> RequestError:
    return RequestError(path=name, detail=detail, stage=Stage.FRAME)


ALL_RUNS: Final = RunFilter()
"""Filter that all runs match."""


def read_facts(summary: RunSummary) -> RunFacts:
    """Return the facts of a run."""
    return RunFacts(summary.kind, summary.model, summary.cents, summary.tone == "failed")
