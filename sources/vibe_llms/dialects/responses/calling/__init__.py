"""Asks vendors: requests are written, answers are read.

``requests`` composes a body of what ``controls``, ``messages`` and ``invocations`` write;
``calls``, ``parts``, ``reasoning`` and ``answers`` write items, ``orders`` keeps to the order that
the vendor wants. ``decoder`` reads responses, whole or streamed, with ``progress``, ``items`` and
``hosted``; ``errors`` says what an error means.
"""
