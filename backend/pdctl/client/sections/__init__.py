"""The calls of `AdminClient`, one module per kind of resource; each is a `Transport` of its own."""
