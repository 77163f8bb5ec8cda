"""Requests to vendors, and their answers.

``requests`` composes a body from ``controls``, ``messages`` and ``invocations``; ``blocks`` and
``media`` write contents. ``decoder`` decodes responses, streamed or not, with ``growth``,
``content_blocks`` and ``executions``; ``errors`` classifies errors.
"""
