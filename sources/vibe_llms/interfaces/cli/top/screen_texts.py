"""Texts of the screen: the list of runs, the lines above it, and the lines about one run.

All lines are free of characters that could control a terminal.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from vibe_llms.flows.number_texts import describe_cost, describe_tokens
from vibe_llms.interfaces.cli.output import measure_text, reveal, sanitize, shorten, write_count
from vibe_llms.interfaces.cli.runs.event_texts import describe_spending
from vibe_llms.interfaces.cli.runs.run_lookup import advise_to_resume
from vibe_llms.interfaces.cli.top.courses import CourseLine
from vibe_llms.interfaces.cli.top.views import View
from vibe_llms.runs.summaries import RunSummary

_COLUMNS: Final = (("state", 10), ("last", 4), ("run", 8), ("tokens", 6), ("cost", 8))
"""Columns of the list with their widths; the name and the model follow them."""
_OPTIONAL_COLUMNS: Final = frozenset({"tokens", "cost"})
_NAME_COLUMNS: Final = 14
"""Minimum width of a run's name; optional columns are shown only if more is left."""
_MODEL_DIVISOR: Final = 3
"""The model gets this fraction of the width that is left for it and the name."""
_GAP: Final = "  "


def flatten(text: str) -> str:
    """Return a text as one line without control characters."""
    return sanitize(" ".join(text.split()))


def compose_header(columns: int) -> str:
    """Return the column headers of the list."""
    return _compose([name for name, _ in _COLUMNS], "model", "name", columns)


def compose_row(summary: RunSummary, columns: int, now: datetime) -> str:
    """Format a run as a line with a maximum number of columns."""
    cells = [
        f"{summary.tone.replace('_', ' ')} {summary.waiting or ''}",
        describe_age((now - summary.updated).total_seconds()),
        summary.id,
        describe_tokens(summary.tokens).split(" ")[0] if summary.tokens else "",
        describe_cost(summary.cents),
    ]
    subject = f"{summary.subject}: " if summary.subject else ""
    return _compose(cells, summary.model, subject + describe_name(summary), columns)


def describe_name(summary: RunSummary) -> str:
    """Return the title of a run; without one, ``a flow`` or an empty text."""
    name = flatten(summary.title)
    if not name and summary.kind == "flow":
        return "a flow"
    return name


def _compose(cells: list[str], model: str, name: str, columns: int) -> str:
    text = ""
    for cell, (column, width) in zip(cells, _COLUMNS, strict=True):
        with_cell = f"{text}{_GAP if text else ''}{_fit(cell, width)}"
        # Columns that do not fit are omitted, because a cut number would be wrong. The name is more
        # important than optional columns.
        room = columns - (_NAME_COLUMNS if column in _OPTIONAL_COLUMNS else 0)
        if measure_text(with_cell) > room:
            break
        text = with_cell
    rest = columns - measure_text(text) - len(_GAP)
    if rest < _NAME_COLUMNS // 2:
        return text.rstrip()
    has_model = rest >= _MODEL_DIVISOR * _NAME_COLUMNS
    model_columns = rest // _MODEL_DIVISOR if has_model else 0
    name_columns = rest - model_columns - len(_GAP) if has_model else rest
    parts = [text, _fit(name, name_columns)]
    if has_model:
        parts.append(_fit(model, model_columns))
    return shorten_end(_GAP.join(parts).rstrip(), columns)


def _fit(text: str, columns: int) -> str:
    # An id is cut without an ellipsis, which would replace a significant letter.
    flat = flatten(text)
    cut = flat[:columns] if flat.isascii() and flat.isalnum() else shorten(flat, columns)
    return cut + " " * max(0, columns - measure_text(cut))


def shorten_end(text: str, columns: int) -> str:
    """Cut a line, and keep its spaces."""
    return text if measure_text(text) <= columns else text[: max(0, columns)]


def describe_age(seconds: float) -> str:
    """Format the age of a moment in at most four letters."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{min(int(seconds // size), 999)}{unit}"
    return f"{max(0, int(seconds))}s"


def describe_page(view: View, place: str) -> str:
    """Return the top line: the place, the listed runs, and their usage."""
    rows = view.shown
    known_costs = [each.cents for each in rows if each.cents is not None]
    parts = [
        f"vibe top {flatten(place)}".rstrip(),
        view.query.state or "",
        f"/{flatten(view.words)}" if view.words else "",
        _describe_count(view),
        f"page {len(view.query.passed) + 1}" if view.has_more or view.query.passed else "",
        _describe_waiting(rows),
        describe_tokens(sum(each.tokens for each in rows) or None),
        describe_cost(sum(known_costs)) if known_costs else "",
    ]
    return " · ".join(part for part in parts if part)


def _describe_count(view: View) -> str:
    if view.rows is None:
        return "loading …"
    shown = len(view.shown)
    if shown == len(view.rows):
        return write_count(shown, "run")
    return f"{shown} of {write_count(len(view.rows), 'run')}"


def _describe_waiting(rows: tuple[RunSummary, ...]) -> str:
    waiting = sum(each.waiting for each in rows)
    return f"{write_count(waiting, 'approval')} requested" if waiting else ""


def describe_nothing(view: View) -> str:
    """Return the placeholder of an empty list."""
    if view.rows is None or view.shown:
        return ""
    if view.rows:
        return "No run on this page matches."
    if view.query.state or view.query.passed:
        return "No such run."
    return "There are no runs yet."


def describe_trouble(view: View) -> str:
    """Return the reason why the display may be stale; empty if it is not."""
    if view.fault:
        return f"Not reachable, retrying: {flatten(view.fault)}"
    return f"Cannot follow this run: {flatten(view.course_fault)}" if view.course_fault else ""


def describe_head(summary: RunSummary) -> tuple[str, str]:
    """Return two lines about a run: its name and its state."""
    title = f"{summary.id}  {describe_name(summary)}".rstrip()
    detail = summary.detail if summary.state != "waiting" else ""
    parts = (
        summary.label,
        summary.model,
        describe_spending(summary),
        f"for {summary.subject}" if summary.subject else "",
        f"fork of {summary.origin[:8]}" if summary.origin else "",
        "ends with its watchers" if summary.is_attached else "",
        detail,
    )
    return flatten(title), flatten(" · ".join(part for part in parts if part))


def describe_activity(view: View) -> str:
    """Describe the current activity of a run."""
    course = view.course
    if course.calls:
        return flatten(f"calls {', '.join(name for _, name in course.calls)} …")
    return flatten(f"asks {course.model} …") if course.model else ""


def describe_waiting(view: View, address: str) -> str:
    """Describe what a run waits for: approvals, or a user on this machine who resumes it."""
    if not view.waiting:
        summary = view.summary
        if address or summary is None or summary.state not in ("due", "broken_off", "stopped"):
            return ""
        return advise_to_resume(summary)
    calls = [
        flatten(f"{each.request.name} {reveal(each.request.arguments)}") for each in view.waiting
    ]
    head = f"{write_count(len(calls), 'call')} to approve: press a"
    return "\n".join((head, *calls))


def describe_line(line: CourseLine) -> str:
    """Format a line about an event of a run."""
    number = f"{line.number:>4}" if line.number else "   ·"
    moment = line.moment.astimezone().strftime("%H:%M:%S") if line.moment else " " * 8
    indentation = "  " if line.is_tool else ""
    return f"{number}  {moment}  {indentation}{flatten(line.text)}"
