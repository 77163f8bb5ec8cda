"""The public, detailed converter."""

from __future__ import annotations

import cattrs


def produce_converter() -> cattrs.Converter:
    """Produces the converter."""
    raise NotImplementedError
