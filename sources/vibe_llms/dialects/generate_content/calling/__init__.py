"""Requests to vendors, and their answers.

``requests`` composes a body from ``controls``, ``messages`` and ``invocations``; ``parts``,
``media`` and ``results`` write contents, ``signatures`` puts them into the order that Google
requires. ``decoder`` decodes responses, streamed or not, with ``calls``, ``partials`` and
``leftovers``; ``grounding`` makes citations; ``errors`` classifies errors.
"""
