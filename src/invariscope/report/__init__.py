"""Audits for people: parts of a page (numbers, sentence, markup), charts, the page itself, the terminal."""
