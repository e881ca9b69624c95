"""The run process and its run directory: load, load workers, tick log, spawn, watch, stop."""
