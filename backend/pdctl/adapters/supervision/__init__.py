"""What launchers of real processes share: the starts on disk, their exits, their logs.

Launchers are strangers to each other, so this does not live among them. `pdctl.shim` writes the
records that are read here.
"""
