"""Shared code of the commands about runs: the named run, and descriptions of events."""
