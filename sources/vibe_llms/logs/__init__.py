"""Append-only line files: acknowledged lines survive crashes.

A writer locks a log (``locks``), repairs an end that was torn by a crash (``lines``), waits for the
disk (``disk``), and counts the lines, so that lost lines are detected (``tallies``). The messages
of a conversation, the events of its runs and the journal of a batch are such files. May import the
errors and the files; must not depend on the content of the lines, or on their folder.
"""
