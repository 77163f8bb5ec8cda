"""Background runs: specifications, workers that execute them, and one interface for all callers.

May import flows and the packages below. Must not know how runs are served over HTTP: the daemon
does that, and the module ``remote`` is an ordinary HTTP client of it.
"""
