"""Draws the states of a run from the table that decides among them, as a picture.

``python documentation/draw_engine.py`` writes ``architecture/engine.svg``; a test notices when the
picture and the table differ.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from vibe_llms.engine.states import State
from vibe_llms.engine.table import TABLE, Situation, find_row
from vibe_llms.engine.tails import Tail
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    StopReason,
    UserCanister,
)

PICTURE = Path(__file__).resolve().parent / "architecture" / "engine.svg"
BEGIN = "begin"
PLACES = {
    BEGIN: (70, 140),
    "generate": (270, 75),
    "await": (560, 75),
    "execute": (560, 215),
    "terminate": (270, 215),
}
WIDTH, HALF_WIDTH, HALF_HEIGHT, LINE = 760, 62, 22, 19


@frozen
class Transition:
    """Transition between two states, with the number of its row in the table."""

    before: str
    after: State
    row: int


def survey_transitions() -> tuple[Transition, ...]:
    """Returns what can follow what, by asking the table about all that a state can bring about."""
    found: dict[Transition, None] = {}
    for before, situations in _bring_about().items():
        for situation in situations:
            row = find_row(situation)
            found[Transition(before, row.state, TABLE.index(row) + 1)] = None
    return tuple(found)


def _bring_about() -> dict[str, list[Situation]]:
    """Returns the situations in which a run can begin, and in which each state can leave it."""
    call = InvocationCanister(invocation_id="call", name="tool")
    result = ResultCanister(invocation_id="call", name="tool")
    said = AssistantCanister("words")
    pending = _produce_tail(call, pending_calls=(call,))
    broken = Situation(tail=_produce_tail(said, stop_reason=StopReason.INTERRUPTED))
    answers = [
        Situation(tail=pending, is_waiting=True),
        Situation(tail=pending),
        Situation(tail=_produce_tail(said)),
        Situation(tail=_produce_tail(said, stop_reason=StopReason.PAUSED)),
    ]
    results = [
        Situation(tail=_produce_tail(result, results=(result,)), final=result),
        Situation(tail=_produce_tail(result, results=(result,))),
    ]
    started = [Situation(tail=Tail(last=UserCanister("words"), start=0))]
    return {
        BEGIN: [*started, broken, *answers, *results],
        State.GENERATE: answers,
        State.AWAIT: [Situation(tail=pending)],
        State.EXECUTE: results,
    }


def _produce_tail(
    last: AnyCanister,
    *,
    pending_calls: tuple[InvocationCanister, ...] = (),
    results: tuple[ResultCanister, ...] = (),
    stop_reason: StopReason = StopReason.UNKNOWN,
) -> Tail:
    return Tail(
        last=last, start=0, pending_calls=pending_calls, results=results, stop_reason=stop_reason
    )


def draw() -> str:
    """Returns the picture."""
    edges: dict[tuple[str, str], list[int]] = {}
    for each in survey_transitions():
        edges.setdefault((str(each.before), str(each.after)), []).append(each.row)
    legend = [f"{n}  {row.situation}" for n, row in enumerate(TABLE, 1)]
    height = 280 + LINE * len(legend)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">',
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0,0 L10,5 L0,10 z" fill="#555"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    lines += [_draw_edge(before, after, rows) for (before, after), rows in edges.items()]
    lines += [_draw_state(name) for name in PLACES]
    lines += [
        f'<text x="30" y="{286 + LINE * index}" fill="#333">{escape(text)}</text>'
        for index, text in enumerate(legend)
    ]
    return "\n".join([*lines, "</svg>", ""])


def _draw_state(name: str) -> str:
    x, y = PLACES[name]
    if name == BEGIN:
        return f'<circle cx="{x}" cy="{y}" r="9" fill="#333"/>'
    fill = "#e8f0e4" if name == "terminate" else "#e6edf5"
    return (
        f'<rect x="{x - HALF_WIDTH}" y="{y - HALF_HEIGHT}" width="{2 * HALF_WIDTH}" '
        f'height="{2 * HALF_HEIGHT}" rx="8" fill="{fill}" stroke="#777"/>'
        f'<text x="{x}" y="{y + 5}" text-anchor="middle" font-weight="bold">{name.upper()}</text>'
    )


def _draw_edge(before: str, after: str, rows: list[int]) -> str:
    label = ", ".join(map(str, sorted(rows)))
    if before == after:
        x, y = PLACES[before]
        path = f"M{x - 25},{y - HALF_HEIGHT} C{x - 45},{y - 60} {x + 45},{y - 60} {x + 25},{y - 22}"
        return _compose(path, x, y - 34, label)
    (x1, y1), (x2, y2) = PLACES[before], PLACES[after]
    start, end = _leave(x1, y1, x2, y2, before), _leave(x2, y2, x1, y1, after)
    length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 1)
    bend = 16  # so that two ways between the same states lie beside each other
    middle_x = (start[0] + end[0]) / 2 - bend * (y2 - y1) / length
    middle_y = (start[1] + end[1]) / 2 + bend * (x2 - x1) / length
    path = (
        f"M{start[0]:.0f},{start[1]:.0f} Q{middle_x:.0f},{middle_y:.0f} {end[0]:.0f},{end[1]:.0f}"
    )
    return _compose(path, middle_x, middle_y, label)


def _leave(x1: float, y1: float, x2: float, y2: float, name: str) -> tuple[float, float]:
    """Returns where the way from one state to another crosses the border of the first."""
    if name == BEGIN:
        return x1, y1
    dx, dy = x2 - x1, y2 - y1
    scale = min(
        HALF_WIDTH / abs(dx) if dx else float("inf"), HALF_HEIGHT / abs(dy) if dy else float("inf")
    )
    return x1 + dx * scale, y1 + dy * scale


def _compose(path: str, x: float, y: float, label: str) -> str:
    return (
        f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#tip)"/>'
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" fill="#a33">{label}</text>'
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    print(f"drew {PICTURE.relative_to(Path.cwd())}")
