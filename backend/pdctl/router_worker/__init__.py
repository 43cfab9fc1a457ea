"""A router in a process of its own: `python -m pdctl.router_worker`, started by the control plane.

Law: it serves by the last table it was given, for as long as nobody tells it to end; the control
plane may come and go. It ends when told, or when a successor has taken its place: never by itself
once it has listened, for the engines behind it outlive the control plane as well.
"""
