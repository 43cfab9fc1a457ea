"""Signals: what is wrong with the fleet, since when, and which knob to turn.

`rules` says what is watched, `readings` what the fleet shows now, `book` what follows from both.
"""
