"""Progress of long work: a bar on a terminal, two lines elsewhere."""

from __future__ import annotations

import sys
import time

_INTERVAL_SECONDS = 0.1
_BAR_COLUMNS = 24


class TerminalProgress:
    """Progress on standard error, for one piece of work at a time.

    Args:
        unit: Unit of the count; bytes by default.
    """

    def __init__(self, unit: str = "") -> None:
        self._unit = unit
        self._label = ""
        self._total: int | None = None
        self._done = 0
        self._started = 0.0
        self._drawn = 0.0

    def start(self, total: int | None, label: str) -> None:
        """Start showing a piece of work with a total number of units."""
        self._label, self._total, self._done = label, total, 0
        self._started = time.monotonic()
        self._drawn = 0.0
        if sys.stderr.isatty():
            self._draw()
        else:
            sys.stderr.write(f"{label} …\n")
            sys.stderr.flush()

    def advance(self, amount: int) -> None:
        """Add units to the progress."""
        self._done += amount
        if sys.stderr.isatty() and time.monotonic() - self._drawn >= _INTERVAL_SECONDS:
            self._draw()

    def finish(self) -> None:
        """End the display."""
        if sys.stderr.isatty():
            self._draw()
            sys.stderr.write("\n")
        else:
            sys.stderr.write(f"{self._label}: {self._format(self._done)}\n")
        sys.stderr.flush()

    def _draw(self) -> None:
        from vibe_llms.interfaces.cli.output import measure_width, shorten

        self._drawn = time.monotonic()
        seconds = max(self._drawn - self._started, 0.001)
        speed = f"{self._format(int(self._done / seconds))}/s"
        if self._total:
            share = min(self._done / self._total, 1.0)
            filled = round(share * _BAR_COLUMNS)
            bar = f"[{'#' * filled}{'.' * (_BAR_COLUMNS - filled)}] {share:4.0%}"
            amount = f"{self._format(self._done)} of {self._format(self._total)}"
        else:
            bar, amount = f"{seconds:.0f} s", self._format(self._done)
        # One column is left empty: some terminals start the next row when one is full.
        columns = measure_width() - 1
        details = f" {bar}  {amount}  {speed}"
        if len(details) + 8 > columns:
            details = f" {bar}"
        line = shorten(self._label, max(0, columns - len(details))) + details
        sys.stderr.write(f"\r\x1b[2K{line[:columns]}")  # the previous line may have been longer
        sys.stderr.flush()

    def _format(self, amount: int) -> str:
        return f"{amount} {self._unit}" if self._unit else _format_bytes(amount)


def _format_bytes(amount: int) -> str:
    if amount < 1_000_000:
        return f"{amount / 1_000:.0f} kB"
    return f"{amount / 1_000_000:.1f} MB"
