"""The words of the screen: rows of the list, and what is said above it and of one run.

Whatever comes out of here is text in which nothing is that could command a terminal, one line each.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from vibe_llms.flows.words import describe_cost, describe_tokens
from vibe_llms.interfaces.cli.output import measure_text, reveal, sanitize, shorten
from vibe_llms.interfaces.cli.runs.naming import advise_to_resume
from vibe_llms.interfaces.cli.runs.words import count, describe_spending
from vibe_llms.interfaces.cli.top.courses import CourseLine
from vibe_llms.interfaces.cli.top.views import View
from vibe_llms.runs.summaries import RunSummary

_COLUMNS: Final = (("state", 10), ("last", 4), ("run", 8), ("tokens", 6), ("cost", 8))
_LESSER: Final = frozenset({"tokens", "cost"})
_NAME: Final = 14
"""What is left for the name of a run at least, before other columns have room."""
_MODEL_SHARE: Final = 3
_GAP: Final = "  "


def flatten(text: str) -> str:
    """Return a text as one line that commands nothing."""
    return sanitize(" ".join(text.split()))


def compose_header(columns: int) -> str:
    """Return what stands above the columns of the list."""
    return _compose([name for name, _ in _COLUMNS], "model", "name", columns)


def compose_row(summary: RunSummary, columns: int, now: datetime) -> str:
    """Return a run as a line of so many columns at most."""
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
    """Return what a run is called, or else what it is."""
    name = flatten(summary.name)
    return name or ("a flow" if summary.kind == "flow" else "")


def _compose(cells: list[str], model: str, name: str, columns: int) -> str:
    fixed = ""
    for cell, (column, width) in zip(cells, _COLUMNS, strict=True):
        wider = f"{fixed}{_GAP if fixed else ''}{_fit(cell, width)}"
        # Half of a number is another; and by its name a run is known, not by what it costs.
        room = columns - (_NAME if column in _LESSER else 0)
        if measure_text(wider) > room:
            break
        fixed = wider
    rest = columns - measure_text(fixed) - len(_GAP)
    if rest < _NAME // 2:
        return fixed.rstrip()
    share = rest // _MODEL_SHARE if rest >= _MODEL_SHARE * _NAME else 0
    parts = [fixed]
    if share:
        rest -= share + len(_GAP)
    parts.append(_fit(name, rest))
    if share:
        parts.append(_fit(model, share))
    return shorten_end(_GAP.join(parts).rstrip(), columns)


def _fit(text: str, columns: int) -> str:
    # An id is known by its beginning: an ellipsis would take the place of a letter that tells it.
    flat = flatten(text)
    cut = flat[:columns] if flat.isascii() and flat.isalnum() else shorten(flat, columns)
    return cut + " " * max(0, columns - measure_text(cut))


def shorten_end(text: str, columns: int) -> str:
    """Cut a line, and leaves its blanks as they are."""
    return text if measure_text(text) <= columns else text[: max(0, columns)]


def describe_age(seconds: float) -> str:
    """Return how long ago something was, in four letters at most."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{min(int(seconds // size), 999)}{unit}"
    return f"{max(0, int(seconds))}s"


def describe_page(view: View, place: str) -> str:
    """Return what stands at the top: where it is, which runs these are, and what they used."""
    rows = view.shown
    known = [each.cents for each in rows if each.cents is not None]
    parts = [
        f"vibe top {flatten(place)}".rstrip(),
        view.query.state or "",
        f"/{flatten(view.words)}" if view.words else "",
        _describe_count(view),
        f"page {len(view.query.passed) + 1}" if view.has_more or view.query.passed else "",
        _describe_waiting(rows),
        describe_tokens(sum(each.tokens for each in rows) or None),
        describe_cost(sum(known)) if known else "",
    ]
    return " · ".join(part for part in parts if part)


def _describe_count(view: View) -> str:
    if view.rows is None:
        return "loading …"
    shown = len(view.shown)
    if shown == len(view.rows):
        return count(shown, "run")
    return f"{shown} of {count(len(view.rows), 'run')}"


def _describe_waiting(rows: tuple[RunSummary, ...]) -> str:
    waiting = sum(each.waiting for each in rows)
    return f"{count(waiting, 'approval')} wanted" if waiting else ""


def describe_nothing(view: View) -> str:
    """Return what is said in the place of an empty list."""
    if view.rows is None or view.shown:
        return ""
    if view.rows:
        return "No run on this page matches."
    if view.query.state or view.query.passed:
        return "No such run."
    return "There are no runs yet."


def describe_trouble(view: View) -> str:
    """Return why what is seen may be old; empty where it is not."""
    if view.fault:
        return f"Not reachable, retrying: {flatten(view.fault)}"
    return f"Cannot follow this run: {flatten(view.course_fault)}" if view.course_fault else ""


def describe_head(summary: RunSummary) -> tuple[str, str]:
    """Return two lines about a run: what it is called, and where it stands."""
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


def describe_now(view: View) -> str:
    """Return what a run is doing at the moment."""
    course = view.course
    if course.calls:
        return flatten(f"calls {', '.join(name for _, name in course.calls)} …")
    return flatten(f"asks {course.asked} …") if course.asked else ""


def describe_waiting(view: View, address: str) -> str:
    """Return what of a run waits: for an approval, or for somebody here who goes on with it."""
    if not view.waiting:
        summary = view.summary
        is_left = (
            not address
            and summary is not None
            and summary.state in ("due", "broken_off", "stopped")
        )
        return advise_to_resume(summary) if summary is not None and is_left else ""
    asked = [
        flatten(f"{each.request.name} {reveal(each.request.arguments)}") for each in view.waiting
    ]
    head = f"{count(len(asked), 'call')} to approve: press a"
    return "\n".join((head, *asked))


def describe_line(line: CourseLine) -> str:
    """Return a line of what has happened in a run."""
    number = f"{line.number:>4}" if line.number else "   ·"
    moment = line.moment.astimezone().strftime("%H:%M:%S") if line.moment else " " * 8
    return f"{number}  {moment}  {'  ' * line.is_tool}{flatten(line.words)}"
