"""``vibe top``: runs on a screen of the terminal.

The state of the screen is an immutable value, a ``View``; each update creates a new one. A
``BoardFeed`` polls the runs and produces the updates. ``screen``, ``keys`` and the dialogs draw
with Textual, which no other modules may import.
"""
