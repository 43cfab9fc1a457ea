"""The command line: one face among three, with no power that the admin API does not give.

Law: stdout carries data, stderr carries talk; heavy imports wait until a verb needs them.
"""
