"""What asks another vibe-llms: requests written; answers, streams, errors and surveys read."""
