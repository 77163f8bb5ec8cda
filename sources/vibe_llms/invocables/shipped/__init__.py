"""The shipped ensembles: files, commands, web pages.

Each is an ordinary plugin: the configuration names its module, its hook names a factory, and its
settings are checked on creation. They may import the public interface of plugins, and the shared
machinery for settings and refusals; they do not know each other.
"""
