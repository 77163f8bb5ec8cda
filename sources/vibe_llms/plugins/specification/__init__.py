"""All hooks that a plugin can implement, and their return values.

A plugin is a module that the configuration names. It implements hooks as plain functions with the
mark :data:`vibe_llms.plugins.markers.hook`; it registers nothing, and importing it only defines
them. Hooks return *specifications*: small frozen values with a name and, for objects to be made, a
factory. So asking a plugin for its specifications is cheap, and its objects are made on first use.
No hook runs per token.

A plugin that raises, or returns an invalid value, is reported and set aside; all other plugins stay
in use.
"""
