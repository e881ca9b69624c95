"""lmtui measures LLM inference, live, from a terminal."""

__version__ = "0.1.0"
