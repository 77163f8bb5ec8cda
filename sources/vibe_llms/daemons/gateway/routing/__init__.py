"""Who is asked, and who else where that one does not answer: switched on by the tables of a file.

``router`` finds the targets behind a name, a walk (``walks``) asks them until one answers, and a
gate (``gates``) holds back what each says until it is known to be an answer. What decides are
machines that are told the time, the chance and what happened: ``circuits``, ``choosing``,
``outcomes``. May import the gateway's seams. It never asks anybody once the client has had a byte.
"""
