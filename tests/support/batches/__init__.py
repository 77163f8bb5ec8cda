"""Batches on workers and at vendors, and programs that die while they process them."""
