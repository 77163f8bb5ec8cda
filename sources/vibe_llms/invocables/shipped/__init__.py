"""The shipped ensembles: files, commands, web pages.

Each ensemble is an ordinary plugin: the configuration names the module, a hook names a factory, and
settings are checked on creation. These plugins may import the public interface of plugins, and the
shared machinery for settings and refusals, but not each other.
"""
