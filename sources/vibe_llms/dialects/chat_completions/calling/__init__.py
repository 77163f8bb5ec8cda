"""Asks vendors: requests are written, answers are read.

``requests`` composes a body of what ``controls``, ``messages`` and ``invocations`` write; ``turns``
and ``parts`` write what is said. ``decoder`` reads responses, whole or streamed, with ``answers``,
``calls``, ``thinking`` and ``sounds``; ``errors`` says what an error means.
"""
