"""The command line ``vibe``.

Startup is lazy: `entry` answers ``--version`` alone, `command_table` has the names and
help of all commands without importing any, and a command's module imports its dependencies when it
runs. May import every lower package. It refuses to know any vendor, and must not make decisions
that a program which uses the library would need too. Commands write results to
standard output and everything else to standard error; `errors` has the one table of exit codes.
"""
