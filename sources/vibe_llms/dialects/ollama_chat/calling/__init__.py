"""Requests to servers, and their answers.

``requests`` composes a body from ``controls``, ``messages`` and ``invocations``; ``parts`` and
``media`` write contents. ``decoder`` decodes responses, streamed or not, with ``calls``; ``errors``
classifies errors.
"""
