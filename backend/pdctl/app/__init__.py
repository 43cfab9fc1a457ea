"""The composition root: `serve` runs one control plane with its router and its faces.

Law: the only package that names concrete classes; it wires and orders, and decides nothing else.
"""

from pdctl.app.life import Companion, Served
from pdctl.app.serve import serve

__all__ = ["Companion", "Served", "serve"]
