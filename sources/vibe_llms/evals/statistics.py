"""Statistics of verdicts: intervals of shares, and agreement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen

_Z: Final = 1.959963984540054
"""Quantile of the normal distribution for an interval of 95 %."""


@frozen(kw_only=True)
class PassRate:
    """Share of passed trials.

    Attributes:
        passed: Number of passed trials.
        total: Number of trials.
    """

    passed: int
    total: int

    @property
    def share(self) -> float:
        """Share of passed trials; 0 without trials."""
        return self.passed / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson score interval of the share, at 95 %; from 0 to 1 without trials."""
        total = self.total
        if not total:
            return 0.0, 1.0
        share, square = self.share, _Z * _Z
        middle = share + square / (2 * total)
        spread = _Z * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
        below, scale = middle - spread, 1 + square / total
        return max(0.0, below / scale), min(1.0, (middle + spread) / scale)


@frozen(kw_only=True)
class Agreement:
    """Agreement of a judge with given labels, and with itself.

    Attributes:
        judge: Name of the judge.
        labelled: Number of verdicts on answers with a label.
        accuracy: Share of them that equal the label; ``None`` without labels.
        kappa: Cohen's kappa of them: agreement beyond chance, at most 1; ``None`` without labels,
            or if labels and verdicts are all equal, so that chance would agree as well.
        repeated: Number of answers that the judge has judged several times.
        consistency: Share of equal pairs of verdicts on the same answer; ``None`` without any.
    """

    judge: str
    labelled: int = 0
    accuracy: float | None = None
    kappa: float | None = None
    repeated: int = 0
    consistency: float | None = None

    def describe(self) -> str:
        """Describe the agreement in a sentence."""
        parts: list[str] = []
        if self.accuracy is not None:
            kappa = "" if self.kappa is None else f", kappa {self.kappa:.2f}"
            parts.append(f"with {self.accuracy:.0%} of {self.labelled:,} labels{kappa}")
        if self.consistency is not None:
            noun = "answer" if self.repeated == 1 else "answers"
            parts.append(f"with itself {self.consistency:.0%}, on {self.repeated:,} {noun}")
        return f"The judge {self.judge!r} agrees {'; '.join(parts)}."

    def is_below(self, minimum: float) -> bool:
        """Return whether a known agreement is lower than a threshold."""
        with_labels = self.accuracy if self.kappa is None else self.kappa
        return any(each is not None and each < minimum for each in (with_labels, self.consistency))


def measure_agreement(
    judge: str, labelled: Sequence[tuple[bool, bool]], votes: Iterable[Sequence[bool]]
) -> Agreement:
    """Measure the agreement of a judge.

    Args:
        labelled: Pairs of a label and a verdict.
        votes: Verdicts of the judge on each answer, in their order.
    """
    repeated = [each for each in votes if len(each) > 1]
    return Agreement(
        judge=judge,
        labelled=len(labelled),
        accuracy=_share(label == verdict for label, verdict in labelled),
        kappa=_compute_kappa(labelled),
        repeated=len(repeated),
        consistency=_average([_compute_consistency(each) for each in repeated]),
    )


def _compute_kappa(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    if not pairs:
        return None
    total = len(pairs)
    observed = sum(label == verdict for label, verdict in pairs) / total
    labels = sum(label for label, _ in pairs) / total
    verdicts = sum(verdict for _, verdict in pairs) / total
    chance = labels * verdicts + (1 - labels) * (1 - verdicts)
    return None if chance == 1 else (observed - chance) / (1 - chance)


def _compute_consistency(votes: Sequence[bool]) -> float:
    """Return the share of equal pairs among all pairs of votes."""
    count, met = len(votes), sum(votes)
    others = count - met
    return (met * (met - 1) + others * (others - 1)) / (count * (count - 1))


def _share(values: Iterable[bool]) -> float | None:
    return _average([float(each) for each in values])


def _average(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
