"""Asks servers: requests are written, answers are read.

``requests`` composes a body of what ``controls``, ``messages`` and ``invocations`` write; ``parts``
and ``media`` write what is said. ``decoder`` reads responses, whole or streamed, with ``calls``;
``errors`` says what an error means.
"""
