"""Samplers of GPUs and of servers' metrics."""
