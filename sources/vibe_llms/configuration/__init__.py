"""Configuration: shipped defaults, files, environment and command line, merged.

Each value has its layer, file and line; all errors are reported at once. May import the exceptions,
the tables and the foundation. Must not know what a provider, a model or a control is: it passes
their values on, and validates only the settings of its own fixed table (``definitions``). Importing
it reads neither files nor environment.
"""
