"""The history, and what reads, compares, imports and exports it."""
