"""Provisions the environment that CPU engines run in: vLLM with NIXL, and a tiny model.

Law: standard library only, and nothing else of pdctl. It runs before anything heavy is installed,
and what it builds is only ever executed by the rest, never imported.
"""

from pdctl.engine_env.blueprint import Blueprint, EngineError
from pdctl.engine_env.progress import Progress, SilentProgress, StderrProgress
from pdctl.engine_env.provision import EngineEnv, clean, ensure_engine, find_engine

__all__ = [
    "Blueprint",
    "EngineEnv",
    "EngineError",
    "Progress",
    "SilentProgress",
    "StderrProgress",
    "clean",
    "ensure_engine",
    "find_engine",
]
