"""Small modules that every other package uses, each with one purpose.

May import the errors (:mod:`vibe_llms.exceptions`); must not know any other package, nor what a
conversation, a provider or a run is.
"""
