"""The data plane: the OpenAI front door, and the legs it sends to engines.

Law: table in, events out, and nothing else of pdctl's control side. The hot path runs no SQL, takes
no lock and reads one immutable board per request; bytes of an engine's answer are never rewritten.
"""
