"""Evals: suites of cases that models and tasks answer, and judges that give verdicts.

``suites`` defines a suite, ``suite_reading`` reads it from TOML. ``evaluating`` runs it: each trial
is a case, a subject and a repeat, ``subjects`` answers it (through the ``caches``), and ``judges``
judge the answer. ``reports`` has the result, ``statistics`` its figures, ``comparing`` the
differences between two reports, and ``report_pages`` their HTML page. May import flows, batches and
instruments. Must not know vendors or terminals.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.evals.comparing import compare_reports as compare_reports
    from vibe_llms.evals.evaluating import Evaluation as Evaluation
    from vibe_llms.evals.evaluating import evaluate as evaluate
    from vibe_llms.evals.evaluating import run_suite as run_suite
    from vibe_llms.evals.reports import EvalReport as EvalReport
    from vibe_llms.evals.reports import read_report as read_report
    from vibe_llms.evals.suite_reading import read_suite as read_suite
    from vibe_llms.evals.suites import EvalCase as EvalCase
    from vibe_llms.evals.suites import EvalJudge as EvalJudge
    from vibe_llms.evals.suites import EvalSubject as EvalSubject
    from vibe_llms.evals.suites import Suite as Suite
    from vibe_llms.evals.suites import Thresholds as Thresholds

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "EvalCase": "suites",
        "EvalJudge": "suites",
        "EvalReport": "reports",
        "EvalSubject": "suites",
        "Evaluation": "evaluating",
        "Suite": "suites",
        "Thresholds": "suites",
        "compare_reports": "comparing",
        "evaluate": "evaluating",
        "read_report": "reports",
        "read_suite": "suite_reading",
        "run_suite": "evaluating",
    },
)
