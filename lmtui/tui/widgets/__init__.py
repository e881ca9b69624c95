"""What screens are made of: widgets take what they show, send messages, and never read files."""
