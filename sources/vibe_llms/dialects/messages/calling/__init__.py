"""Asks vendors: requests are written, answers are read.

``requests`` composes a body of what ``controls``, ``messages`` and ``invocations`` write;
``blocks`` and ``media`` write what is said. ``decoder`` reads responses, whole or streamed, with
``growth``, ``contents``, ``citations`` and ``executions``; ``errors`` says what an error means.
"""
