"""The browser console: server-rendered pages over the admin API, kept live by its event stream.

Law: imports `contract`, `client` and the web framework only; it has no power the API lacks.
No HTML in Python, no decisions in templates, and every page works with scripts switched off.
"""

from pdctl.web.site import create_web

__all__ = ["create_web"]
