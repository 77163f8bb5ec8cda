"""The ensembles that ship: files, commands, pages of the web.

Each is a plugin like a stranger's: the configuration names its module, its hook names a factory,
and its settings are checked when it is made. They may import what a stranger's could, and the
machinery for settings and refusals beside them; they do not know each other.
"""
