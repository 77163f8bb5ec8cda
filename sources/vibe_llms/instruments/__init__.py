"""Instruments: models, engines, channels, parsers, prompts and skills; the entry points of scripts
and applications.

May import whatever lies below. Contains no protocol logic of its own: an instrument composes a
request or a conversation and hands it on.
"""
