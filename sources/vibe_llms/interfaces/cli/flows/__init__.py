"""Shared code of the ``vibe flow`` commands: execution and display of a run."""
