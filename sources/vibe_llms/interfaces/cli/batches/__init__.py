"""What ``vibe batch`` reads, and how it shows how far it has come."""
