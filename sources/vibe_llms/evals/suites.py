"""Suites of evals: cases, the subjects that answer them, and the judges of their answers."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import attrs

from vibe_llms.flows.task_kinds import EXPECTED, PLAIN
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.suggestions import suggest
from vibe_llms.tables.annotations import Count, MappingKind, String, Wait
from vibe_llms.tables.kinds import Kind, is_number, is_table, is_text, is_whole
from vibe_llms.tables.reading import require

GIVEN: Final = "(given)"
"""Subject of cases whose answer is given; they test the judges."""

NAME_CHARACTERS: Final = 200
"""Maximum length of a name."""

_MAX_REPEATS: Final = 1_000

_RATE: Final = Kind("a number from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1)
_DOLLARS: Final = Kind(
    "a number of dollars of at least 0",
    lambda value: is_number(value) and 0 <= value <= sys.float_info.max,
)
_REPEATS: Final = Kind(
    f"a whole number from 1 to {_MAX_REPEATS:,}",
    lambda value: is_whole(value) and 1 <= value <= _MAX_REPEATS,
)
_FUNCTION: Final = Kind(
    "a function, such as 'checks.py:is_brief'",
    lambda value: callable(value) or (is_text(value) and ":" in value),
)
_NAME: Final = Kind(
    f"a name on one line of at most {NAME_CHARACTERS} characters",
    lambda value: (
        is_text(value) and len(value) <= NAME_CHARACTERS and "\n" not in value and "\r" not in value
    ),
)
_VALUES: Final = MappingKind(PLAIN)

JudgeKind = Literal[
    "contains",
    "equals",
    "category",
    "json_schema",
    "success",
    "goal",
    "predicate",
    "function",
    "model",
]

NEEDS_EXPECTED: Final = frozenset({"contains", "equals", "category", "json_schema"})
"""Kinds of judges that compare an answer with an expected value."""


@frozen(kw_only=True)
class EvalCase:
    """Case of a suite: an input, and the requirements for its answer.

    Attributes:
        name: Name of the case, unique in the suite.
        prompt: Prompt; a Jinja template with ``variables``. By default, the prompt of the suite.
        variables: Values of variables in the prompt, and variables of tasks.
        files: Files that are attached to the prompt.
        run: Folder that ``vibe runs keep`` has written. Models answer its conversation up to the
            last message of the user; tasks run with the variables of its flow.
        system: Instructions that replace those of the subject.
        tools: Ensembles that models may use, in place of those of the subject.
        expected: Expected value for judges that compare, and reference for models that judge.
        answer: Given answer, which is judged in place of answers of subjects.
        expected_verdict: Correct verdict on the answer; measures the agreement of the judges.
        judges: Names of the judges of this case; by default, all.
        tags: Tags, to select cases.
    """

    name: Annotated[str, _NAME]
    prompt: String = ""
    variables: Annotated[Mapping[str, JsonValue], _VALUES] = attrs.field(factory=dict)
    files: tuple[Path, ...] = ()
    run: Path | None = None
    system: String | None = None
    tools: tuple[str, ...] | None = None
    expected: Annotated[JsonValue, EXPECTED] | None = None
    answer: String | None = None
    expected_verdict: bool | None = None
    judges: tuple[str, ...] | None = None
    tags: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        require(self, f"case {self.name}")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield values that do not fit together."""
        if self.answer is not None:
            for name in ("files", "run", "tools"):
                if getattr(self, name):
                    yield name, "A case with a given answer asks no model; remove this."
        if self.run is not None and (self.prompt or self.files):
            yield "run", "A case has either a run, or a prompt with files."
        if self.judges == ():
            yield "judges", "Without a judge, every answer would pass. Name one, or remove this."


@frozen(kw_only=True)
class EvalSubject:
    """Subject of a suite: a model, or a task.

    Attributes:
        name: Name of the subject, unique in the suite.
        model: Address of a model; or the model that replaces the one of the task.
        task: File of a task.
        system: Instructions of the model; by default, those of the suite.
        controls: Controls of the model, such as ``temperature``.
        tools: Ensembles that the model may use.
    """

    name: Annotated[str, _NAME]
    model: String = ""
    task: Path | None = None
    system: String | None = None
    controls: Annotated[Mapping[str, JsonValue], _VALUES] = attrs.field(factory=dict)
    tools: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        require(self, f"subject {self.name}")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield values that do not fit together."""
        if not self.model and self.task is None:
            yield "", "A subject needs a model or a task."
        if self.task is not None:
            for name in ("system", "controls", "tools"):
                if getattr(self, name):
                    yield name, "It applies to models only: set it in the task."


@frozen(kw_only=True)
class EvalJudge:
    """Judge of a suite.

    Attributes:
        name: Name of the judge, unique in the suite.
        kind: Way of judging. ``contains``, ``category``, ``json_schema``, ``success`` and
            ``predicate`` are the verifications of flows; ``equals`` compares texts without case and
            surrounding punctuation; ``goal`` is the goal of the task that is the subject.
        expected: Expected value; by default, that of the case.
        function: Function of a predicate: ``FILE.py:NAME`` or ``MODULE:NAME``.
        predicate: Name of a plugin's predicate.
        time_limit_seconds: Timeout of one call of the function or predicate; infinite for no limit.
        question: Condition that a model judges.
        model: Address of the model that judges; by default, the configured model.
        controls: Controls of this model.
        repeats: Number of times that the model judges each answer; the majority decides.
    """

    name: Annotated[str, _NAME]
    kind: JudgeKind
    expected: Annotated[JsonValue, EXPECTED] | None = None
    function: Annotated[str | Callable[..., Any], _FUNCTION] = ""
    predicate: String = ""
    time_limit_seconds: Wait = 60.0
    question: String = ""
    model: String = ""
    controls: Annotated[Mapping[str, JsonValue], _VALUES] = attrs.field(factory=dict)
    repeats: Annotated[int, _REPEATS] = 1

    def __attrs_post_init__(self) -> None:
        require(self, f"judge {self.name}")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield values that do not fit together."""
        settings = {
            "function": ("function", "time_limit_seconds"),
            "predicate": ("predicate", "time_limit_seconds"),
            "model": ("question", "model", "controls", "repeats"),
        }
        allowed = settings.get(self.kind, ())
        for name, default in _KIND_SETTINGS.items():
            if name not in allowed and getattr(self, name) != default:
                kinds = [f'"{kind}"' for kind, names in settings.items() if name in names]
                yield name, f"It applies to judges of the kind {' or '.join(kinds)} only."
        if allowed and _is_blank(getattr(self, allowed[0])):
            yield "", f'A judge of the kind "{self.kind}" needs a {allowed[0]}.'
        if self.expected is not None and self.kind in ("success", "goal", "predicate", "function"):
            yield "expected", f'A judge of the kind "{self.kind}" compares nothing; remove this.'


_KIND_SETTINGS: Final[Mapping[str, object]] = {
    "function": "",
    "predicate": "",
    "time_limit_seconds": 60.0,
    "question": "",
    "model": "",
    "controls": {},
    "repeats": 1,
}
"""Settings of a judge that depend on its kind, with their defaults."""


@frozen(kw_only=True)
class Thresholds:
    """Thresholds of a suite, which decide whether it holds.

    Attributes:
        pass_rate: Minimum share of passed trials, for each subject.
        regression: Maximum decrease of the share of passed trials of a case, compared with an
            earlier report.
        agreement: Minimum agreement of a judge, with labels (kappa) and with itself; below it, a
            warning is shown.
    """

    pass_rate: Annotated[float, _RATE] = 1.0
    regression: Annotated[float, _RATE] = 0.0
    agreement: Annotated[float, _RATE] = 0.6

    def __attrs_post_init__(self) -> None:
        require(self, "thresholds")


# Type checkers cannot infer the type of a converter that is generic, such as ``tuple``.
def _gather_cases(cases: Iterable[EvalCase]) -> tuple[EvalCase, ...]:
    return tuple(cases)


def _gather_subjects(subjects: Iterable[EvalSubject]) -> tuple[EvalSubject, ...]:
    return tuple(subjects)


def _gather_judges(judges: Iterable[EvalJudge]) -> tuple[EvalJudge, ...]:
    return tuple(judges)


@frozen(kw_only=True)
class Suite:
    """Suite of evals: each subject answers each case, and the judges give verdicts.

    Attributes:
        cases: Cases.
        subjects: Models and tasks.
        judges: Judges of each answer; a trial has passed if all of them say so.
        name: Name of the suite; for a file, by default its name.
        prompt: Prompt of all cases that have none: a Jinja template with their variables.
        system: Instructions of all models that have none.
        repeats: Number of answers of each subject to each case.
        concurrency: Number of trials in progress at once.
        max_cost: Maximum cost of a run, in dollars; nothing more is sent after it.
        thresholds: Thresholds that decide whether the suite holds.
        folder: Folder at which relative paths of functions start.
    """

    cases: tuple[EvalCase, ...] = attrs.field(converter=_gather_cases)
    subjects: tuple[EvalSubject, ...] = attrs.field(default=(), converter=_gather_subjects)
    judges: tuple[EvalJudge, ...] = attrs.field(converter=_gather_judges)
    name: Annotated[str, _NAME] = "suite"
    prompt: String = ""
    system: String = ""
    repeats: Annotated[int, _REPEATS] = 1
    concurrency: Count = 8
    max_cost: Annotated[float, _DOLLARS] | None = None
    thresholds: Thresholds = Thresholds()
    folder: Path = Path()

    def __attrs_post_init__(self) -> None:
        require(self, "suite")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield values that do not fit together."""
        for name in ("cases", "judges"):
            if not getattr(self, name):
                yield name, f"A suite needs at least one of its {name}."
        if not self.subjects and any(each.answer is None for each in self.cases):
            yield "subjects", "A suite needs a subject, unless each case has an answer."
        for field in ("cases", "subjects", "judges"):
            counts = Counter(each.name for each in getattr(self, field))
            for name, count in counts.items():
                if count > 1:
                    yield field, f"The name {name!r} is used {count} times; it must be unique."
        if any(each.name == GIVEN for each in self.subjects):
            yield "subjects", f"The name {GIVEN!r} is reserved for given answers."
        yield from self._survey_case_mistakes()

    def _survey_case_mistakes(self) -> Iterator[tuple[str, str]]:
        judges = {each.name: each for each in self.judges}
        asks_models = any(each.task is None for each in self.subjects)
        for index, case in enumerate(self.cases):
            place = f"cases[{index}]"
            for name in case.judges or ():
                if name not in judges:
                    message = f"{case.name!r}: Unknown judge {name!r}{suggest(name, judges)}"
                    yield f"{place}.judges", message
            for judge in self.survey_judges(case):
                expected = find_expected(judge, case)
                is_usable = is_text(expected) if isinstance(expected, str) else expected is not None
                if judge.kind in NEEDS_EXPECTED and not is_usable:
                    yield (
                        place,
                        f"{case.name!r}: The judge {judge.name!r} needs an expected value. Add "
                        "`expected`, or list other judges in `judges`.",
                    )
                elif judge.kind == "json_schema" and not is_table(expected):
                    yield (
                        place,
                        f"{case.name!r}: The judge {judge.name!r} needs a JSON Schema as the "
                        "expected value: a table.",
                    )
            has_input = case.run is not None or not _is_blank(case.prompt or self.prompt)
            if asks_models and not has_input and case.answer is None:
                yield place, f"{case.name!r}: A case for models needs a prompt or a run."

    def survey_judges(self, case: EvalCase) -> Iterable[EvalJudge]:
        """Return the judges of a case."""
        if case.judges is None:
            return self.judges
        return [each for each in self.judges if each.name in case.judges]


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def find_expected(judge: EvalJudge, case: EvalCase) -> JsonValue:
    """Return the expected value of a judge for a case; ``None`` if there is none."""
    return case.expected if judge.expected is None else judge.expected


def write_value(value: JsonValue) -> str:
    """Return a value as text; values other than texts as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
