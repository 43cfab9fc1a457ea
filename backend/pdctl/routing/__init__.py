"""The router's decisions: where a request goes, why, and what happens next when something fails.

Law: pure. Nothing here sends, waits, reads a clock or draws a random number: loads, times and
chance are arguments, and every decision carries its reason.
"""
