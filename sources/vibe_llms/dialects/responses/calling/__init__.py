"""Requests to vendors, and their answers.

``requests`` composes a body from ``controls``, ``messages`` and ``invocations``; ``calls``,
``parts``, ``reasoning`` and ``tool_outputs`` write items, ``item_order`` withholds reasoning at
positions that the vendor rejects. ``decoder`` decodes responses, streamed or not, with
``progress``, ``items`` and ``hosted``; ``errors`` classifies errors.
"""
