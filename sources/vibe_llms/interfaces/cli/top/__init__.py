"""``vibe top``: runs on a screen of the terminal.

The state is a value, a ``View``, into which updates are folded; a ``Feed`` reads the runs and
produces the updates; ``screen`` and ``line_dialogs`` draw with Textual, which nothing else may
import.
"""
