"""The config: one declaration per parameter, and from it files, flags, forms, columns, help and checks."""
