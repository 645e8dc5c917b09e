"""Audits for people: tables and plot data, charts, one self-contained page, the terminal."""
