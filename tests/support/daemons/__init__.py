"""Support for tests of the daemons: one of them, all three together, and chaos."""
