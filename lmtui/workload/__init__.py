"""Datasets, arrivals and cancel points: config + seed → plan."""
