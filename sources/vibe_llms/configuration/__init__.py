"""Configuration: shipped defaults, files, environment and command line, merged.

Each value has its layer, file and line; all errors are reported at once. May import the exceptions
and the location of the shipped data. Must not know what a provider, a model or a control is: it
passes their values on and checks only its own closed table. Importing it reads neither files nor
environment.
"""
