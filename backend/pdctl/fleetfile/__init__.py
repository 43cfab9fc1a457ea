"""Fleet files: TOML that says what fleet to run, read into a FleetSpec with every mistake named.

Law: reads the file and facts of this machine (paths, port ranges), starts nothing, changes nothing.
"""

from pdctl.fleetfile.loading import check, inspect, load
from pdctl.fleetfile.mistakes import ERROR, WARNING, FleetFileError, Mistake

__all__ = ["ERROR", "WARNING", "FleetFileError", "Mistake", "check", "inspect", "load"]
