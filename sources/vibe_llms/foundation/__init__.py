"""Small modules that every other package stands on, each with one idea.

May import the errors (:mod:`vibe_llms.exceptions`); refuses to know any other package, and what a
conversation, a provider or a run is.
"""
