"""The parts of the page, one file each: its numbers, its sentence, its markup.

``markup(audit, figure)`` is the part as it stands on the page, empty where it has nothing to say; numbers and sentences
serve the terminal as well.
"""
