"""The admin API: REST and server-sent events over one `ControlPlane`. JSON only, no HTML.

Law: imports `control` and `contract`, never an adapter, never a face. One file per resource.
"""

from pdctl.api.app import create_api

__all__ = ["create_api"]
