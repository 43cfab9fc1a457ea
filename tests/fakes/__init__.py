"""Little worlds that behave like the real one, for tests: a clock, processes, engines, a store."""
