"""Genera: the purposes of models."""

from __future__ import annotations

import enum


class Genus(enum.StrEnum):
    """The purpose of a model; ``converser``, which answers in a conversation, is the only one."""

    CONVERSER = "converser"
