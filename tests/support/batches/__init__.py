"""Support for tests of batches: on workers, at vendors, and in processes that are killed."""
