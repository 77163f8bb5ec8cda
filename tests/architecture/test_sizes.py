"""Modules hold one idea and functions fit a screen."""

from __future__ import annotations

import importlib.util
import statistics
from pathlib import Path

_specification = importlib.util.spec_from_file_location(
    "report_sizes", Path(__file__).with_name("report_sizes.py")
)
assert _specification is not None
assert _specification.loader is not None
report_sizes = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(report_sizes)


def test_nine_functions_in_ten_fit_a_screen() -> None:
    """Nine functions in ten have at most 35 lines besides their docstrings; none exceeds 80."""
    sizes = report_sizes.measure_functions()

    assert statistics.quantiles([size.lines for size in sizes], n=10)[8] <= 35
    assert not [size for size in sizes if size.lines > 80]


def test_no_module_outgrows_its_idea() -> None:
    """The middle module has at most 200 lines, and none exceeds 500."""
    sizes = report_sizes.measure_modules()

    assert statistics.median(size.lines for size in sizes) <= 200
    assert not [size for size in sizes if size.lines > 500]
