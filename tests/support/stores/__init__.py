"""Stores, disks, databases, and exports."""
