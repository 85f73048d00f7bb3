"""The migration itself: text in, edits and findings out. ``engine`` is the way in."""
