"""Requests to vendors, and their answers.

``requests`` composes a body from ``controls``, ``messages`` and ``invocations``; ``calls``,
``parts``, ``reasoning`` and ``tool_answers`` write items, ``orders`` puts them into the order that
the vendor requires. ``decoder`` decodes responses, streamed or not, with ``progress``, ``items``
and ``hosted``; ``errors`` classifies errors.
"""
