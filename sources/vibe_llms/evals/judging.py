"""The runner of each kind of judge."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from vibe_llms.application import Application
from vibe_llms.evals.caches import EvalCache
from vibe_llms.evals.function_judges import FunctionJudge
from vibe_llms.evals.judges import JudgeRunner
from vibe_llms.evals.model_judges import ModelJudge
from vibe_llms.evals.suites import EvalJudge
from vibe_llms.flows.predicates import Predicates


def open_judge(
    judge: EvalJudge,
    application: Application,
    cache: EvalCache | None,
    *,
    reads_cache: bool,
    cap: Decimal | None,
    predicates: Predicates,
    folder: Path,
) -> JudgeRunner:
    """Return the runner of a judge."""
    if judge.kind == "model":
        return ModelJudge(judge, application, cache, reads_cache=reads_cache, cap=cap)
    if judge.kind in ("function", "predicate"):
        return FunctionJudge(judge, predicates, folder)
    return JudgeRunner(judge)
