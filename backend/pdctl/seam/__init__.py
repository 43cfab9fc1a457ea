"""The seam on a wire: how a router in a process of its own and the control plane talk.

Law: plain data only; both sides import this package and nothing of each other.
"""
