"""Signals kept: what is counted for them, who is told, what operators said to them."""
