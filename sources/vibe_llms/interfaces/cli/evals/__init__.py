"""Evals on the terminal: forecast, progress, and tables of reports and comparisons."""
