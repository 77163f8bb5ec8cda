"""Writes conversations in other forms; the form follows from the name of the file."""

from __future__ import annotations
