"""The crash test: kill every kind of process at random while streams run; check what must hold.

Law: nothing is believed because pdctl says so where the process table, a socket or a client can say
it. A round is judged by pure functions over what was seen (`invariants`), so that each of them can
be shown a world in which it must complain.
"""
