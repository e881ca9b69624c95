"""The terminal application: screens that show run directories and the history."""

import os

# Textual reads these when it is first imported. A refresh costs bytes on a slow link: no animation, and few frames; a
# key may wait for two of them, so that 30 a second keep it under 100 ms (15 did not).
os.environ.setdefault("TEXTUAL_FPS", "30")
os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
os.environ.setdefault("TEXTUAL_SMOOTH_SCROLL", "0")
