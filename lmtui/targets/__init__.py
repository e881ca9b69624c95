"""What answers: engines in process, and servers. Imported only by the run process and its load workers."""
