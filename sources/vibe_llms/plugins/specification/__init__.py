"""Every hook that a plugin can implement, and what the hooks return.

A plugin is a module that the configuration names. It implements hooks as plain functions
that carry the mark :data:`vibe_llms.plugins.markers.hook`; it registers nothing, and being
imported has no effect beyond defining them. Hooks return *specifications*: small frozen
values with a name and, where something is to be made, a factory. So asking a plugin what it
has is cheap, and what it has is made only when somebody uses it. No hook runs per token.

A plugin that raises, or returns something else than is written here, is named and set aside;
all other plugins go on.
"""
