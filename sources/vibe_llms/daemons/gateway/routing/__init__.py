"""Routing, fallbacks and circuits, configured by the tables of the gateway's file.

``router`` finds the targets behind a name, ``fallback`` asks them until one answers, and a gate
(``gates``) holds an answer back until it is certain that the answer is not an error. Decisions are
made by pure functions, which receive the time and random numbers as arguments: ``circuits``,
``weights``, ``outcomes``. Once the client has received a byte, no other target is asked.
"""
