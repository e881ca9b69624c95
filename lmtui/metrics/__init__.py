"""Sessions → summary: every number of METRICS, for a finished run and folded live."""
