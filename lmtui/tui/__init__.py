"""The terminal application: screens that show run directories and the history."""

import os

# Textual reads these when it is first imported. A refresh costs bytes on a slow link: no animation, few frames.
os.environ.setdefault("TEXTUAL_FPS", "15")
os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
os.environ.setdefault("TEXTUAL_SMOOTH_SCROLL", "0")
