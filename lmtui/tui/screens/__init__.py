"""One file per screen: a screen wires widgets and keys to the rooms below, and computes nothing."""
