"""Mermaid diagrams, Mermaid itself as the judge, and a fuzzer."""
