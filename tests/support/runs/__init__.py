"""Runs of the engine with models that play a script, in this process or in one that dies."""
