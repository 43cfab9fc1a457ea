"""The pure core: frozen dataclasses and functions over them.

Law: standard library only; no clock, no I/O, no asyncio, no logging, no randomness. Time arrives as
`now`, chance as `rng`. Desired (`topology`) and observed (`instance`, `fleet`) never mix.
"""
