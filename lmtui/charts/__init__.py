"""Numbers to rows of cells: pure numpy, no Textual."""
