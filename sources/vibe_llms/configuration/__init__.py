"""What the user wrote: shipped defaults, files, environment and command line, merged.

Each value knows the layer, file and line it came from; mistakes are reported all at once.
May import the exceptions and the shipped data's place. It refuses to know what a provider,
a model or a control is: it carries their values and checks only its own closed table.
Importing it reads neither files nor environment.
"""
