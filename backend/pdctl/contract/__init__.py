"""The wire: pydantic models of the admin API, shared by the server and by every face.

Law: imports domain enums only. A face that may import this and `client` has no private powers.
Times are RFC 3339 UTC strings; durations carry their unit in the name; null means unknown, not 0.
"""
