"""The command line ``vibe``.

Startup is lazy: `entry` answers ``--version`` without further imports, `command_table` has the
names and help of all commands without importing any, and a command's module imports its
dependencies when it runs. May import every lower package. Must not contain code about a particular
vendor, nor logic that programs would need if they use the library directly. Commands write results
to standard output and everything else to standard error; `errors` has the table of exit codes.
"""
