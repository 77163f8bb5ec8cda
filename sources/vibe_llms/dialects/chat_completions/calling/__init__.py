"""Requests to vendors, and their answers.

``requests`` composes a body from ``controls``, ``messages`` and ``invocations``; ``turns`` and
``parts`` write messages. ``decoder`` decodes responses, streamed or not, with ``answers``,
``calls``, ``thinking`` and ``audio``; ``errors`` classifies errors.
"""
