"""The terminal application: screens that show run directories and the history."""
