"""Answers clients: requests are read, answers are written. No call needs any of this."""
