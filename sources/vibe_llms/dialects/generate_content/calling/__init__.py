"""Asks vendors: requests are written, answers are read.

``requests`` composes a body of what ``controls``, ``messages`` and ``invocations`` write;
``parts``, ``media`` and ``results`` write what is said, ``signatures`` keeps to the order that
Google wants. ``decoder`` reads responses, whole or streamed, with ``calls``, ``partials`` and
``leftovers``; ``grounding`` makes citations of what they rest on; ``errors`` says what an error
means.
"""
