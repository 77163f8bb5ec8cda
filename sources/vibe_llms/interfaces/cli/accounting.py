"""Formats of usage accounts: tables for people, a document for programs, and one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from vibe_llms.foundation.money import write_dollars
from vibe_llms.interfaces.cli.output import measure_text, measure_width, shorten, write_count

if TYPE_CHECKING:
    from vibe_llms.telemetry.accounts import Account, ModelAccount, StateAccount, ToolAccount

_UNKNOWN = "?"
_MIN_NAME_COLUMNS = 12
"""Minimum width of the first column, the names, on a narrow terminal."""


def compose_tables(account: Account) -> str:
    """Format an account for people: by state, model and tool; then list the unknown values."""
    if not account.models and not account.tools:
        return "Nothing has been used yet."
    blocks = [_compose_states(account), _compose_models(account.models)]
    if account.tools:
        blocks.append(_compose_tools(account.tools))
    remarks = _survey_remarks(account)
    if remarks:
        blocks.append("\n".join(remarks))
    return "\n\n".join(blocks)


def compose_document(account: Account) -> dict[str, Any]:
    """Format an account for programs: amounts as exact texts, ``None`` for unknown values."""
    import attrs

    def encode(value: Any) -> Any:
        return str(value) if isinstance(value, Decimal) else value

    def list_all(parts: Iterable[Any]) -> list[dict[str, Any]]:
        return [
            attrs.asdict(part, value_serializer=lambda _, __, value: encode(value))
            for part in parts
        ]

    models = list_all(account.models)
    for document, model in zip(models, account.models, strict=True):
        document["amount"] = encode(model.amount)
        if document["usage"] is not None:
            del document["usage"]["native"]
    return {
        "amount": encode(account.amount),
        "currency": "USD",
        "unpriced": list(account.unpriced),
        "states": list_all(account.states),
        "models": models,
        "tools": list_all(account.tools),
        "approvals": account.approvals,
        "retries": account.retries,
        "doubted": account.doubted,
    }


def summarize(account: Account) -> str:
    """Summarize the known values of an account in one line."""
    usage = account.usage
    parts = []
    if account.calls:
        parts.append(
            f"{write_count(account.generations, 'answer')}, {write_count(account.calls, 'call')}"
        )
    if usage is not None:
        parts.append(f"{_write_number(usage.total_input_tokens)} tokens in")
        parts.append(f"{_write_number(usage.total_output_tokens)} out")
    if account.amount is not None:
        parts.append(write_amount(account.amount))
    return ", ".join(parts)


def write_amount(amount: Decimal | None) -> str:
    """Format US dollars."""
    return _UNKNOWN if amount is None else write_dollars(amount)


def write_seconds(seconds: float | None) -> str:
    """Format a duration for people."""
    if seconds is None:
        return _UNKNOWN
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds >= 0.1 or not seconds else f"{seconds * 1000:.0f} ms"
    minutes, remaining_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{remaining_seconds:02} h"
    return f"{minutes}:{remaining_seconds:02} min"


def _write_number(number: int | None) -> str:
    return _UNKNOWN if number is None else f"{number:,}"


def _compose_states(account: Account) -> str:
    def compose_row(state: StateAccount) -> list[str]:
        if state.state in ("tools", "approval"):  # these have neither tokens nor costs
            return [state.state, "", "", "", write_seconds(state.seconds)]
        input_tokens = _write_number(state.input_tokens) if state.state == "generation" else ""
        output_tokens = _write_number(state.output_tokens)
        amount, seconds = write_amount(state.amount), write_seconds(state.seconds)
        return [state.state, input_tokens, output_tokens, amount, seconds]

    is_unused = {"tools": not account.calls, "approval": not account.approvals}
    states = [state for state in account.states if not is_unused.get(state.state)]
    return _lay_out(["state", "input", "output", "cost", "time"], map(compose_row, states))


def _compose_models(models: Sequence[ModelAccount]) -> str:
    def compose_row(model: ModelAccount) -> list[str]:
        usage = model.usage
        tokens = (
            None if usage is None else usage.total_input_tokens,
            None if usage is None else usage.cache_read_tokens,
            _add_cache_writes(model),
            None if usage is None else usage.total_output_tokens,
        )
        answers, failures = f"{model.generations:,}", f"{model.failures:,}"
        amount, seconds = write_amount(model.amount), write_seconds(model.seconds)
        return [model.model, answers, failures, *map(_write_number, tokens), amount, seconds]

    heading = ["model", "asked", "failed", "input", "cached", "to cache", "output", "cost", "time"]
    optional_columns = [heading.index(name) for name in ("failed", "cached", "to cache")]
    return _lay_out(heading, map(compose_row, models), optional=optional_columns)


def _add_cache_writes(model: ModelAccount) -> int | None:
    """Return the tokens written to caches of any duration; ``None`` if unknown."""
    if model.usage is None:
        return None
    kinds = (model.usage.cache_write_tokens, model.usage.cache_write_long_tokens)
    known = [kind for kind in kinds if kind is not None]
    return sum(known) if known else None


def _compose_tools(tools: Sequence[ToolAccount]) -> str:
    rows = (
        [tool.name, f"{tool.calls:,}", f"{tool.failures:,}", write_seconds(tool.seconds)]
        for tool in tools
    )
    return _lay_out(["tool", "calls", "failed", "time"], rows)


def _survey_remarks(account: Account) -> list[str]:
    remarks = [f"Not in the cost: {reason}" for reason in account.unpriced]
    unreported = sum(model.unreported for model in account.models)
    if unreported:
        remarks.append(f"The usage of {write_count(unreported, 'answer')} is unknown.")
    untimed = sum(model.untimed for model in account.models)
    # If all durations are unknown, the table already shows it.
    if untimed and untimed < account.generations:
        remarks.append(f"The duration of {write_count(untimed, 'answer')} is unknown.")
    if account.approvals:
        remarks.append(f"{write_count(account.approvals, 'approval')} requested.")
    if account.retries:
        remarks.append(f"Requests were retried {write_count(account.retries, 'time')}.")
    if account.doubted:
        remarks.append(
            f"{write_count(account.doubted, 'interrupted answer')} may have been billed."
        )
    return remarks


def _lay_out(heading: list[str], rows: Iterable[list[str]], *, optional: Sequence[int] = ()) -> str:
    """Lay out a table: names left-aligned and cut to fit, numbers right-aligned.

    Args:
        optional: Indexes of columns that are omitted if they contain only zeros or nothing known.
    """
    table = [heading, *rows]
    columns = [
        list(column)
        for index, column in enumerate(zip(*table, strict=True))
        if index not in optional or any(cell not in ("0", _UNKNOWN) for cell in column[1:])
    ]
    widths = [max(map(measure_text, column)) for column in columns]
    excess = sum(widths) + 2 * (len(widths) - 1) - measure_width()
    if excess > 0:  # only the names are cut, but not below their minimum width
        min_width = min(_MIN_NAME_COLUMNS, widths[0])
        widths[0] = max(min_width, widths[0] - excess)
    lines = []
    for name, *cells in zip(*columns, strict=True):
        short_name = shorten(name, widths[0])
        line = short_name + " " * (widths[0] - measure_text(short_name))
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join([line, *numbers]).rstrip())
    return "\n".join(lines)
