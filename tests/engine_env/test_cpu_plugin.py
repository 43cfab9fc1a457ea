"""The CPU plugin, loaded from the recipe against stand-ins for NIXL's binding and vLLM's queue."""

import gc
import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest

from pdctl.engine_env.blueprint import RECIPE
from pdctl.engine_env.cpu import ENGINE_ARGS, ENGINE_ENV

QUEUE = "vllm.distributed.device_communicators.shm_broadcast"


class AgentConfig:
    pthrDelay = -1  # noqa: N815 - the binding's own name


class SpinCondition:
    """vLLM's reader side: polls while the last read is younger than busy_loop_s, else waits."""

    def __init__(self, last_read: float) -> None:
        self.last_read, self.busy_loop_s = last_read, 1.0
        self.waited: list[tuple[float, int | None]] = []

    def wait(self, timeout_ms: int | None = None) -> None:
        self.waited.append((self.busy_loop_s, timeout_ms))


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The plugin's module, in a process that seems to have NIXL and vLLM."""
    for name in ("PDCTL_NIXL_PROGRESS_DELAY_US", "PDCTL_QUEUE_SPIN_US"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UCX_RCACHE_MAX_UNRELEASED", "1024")
    binding, queue = ModuleType("nixl._bindings"), ModuleType(QUEUE)
    binding.nixlAgentConfig = type("nixlAgentConfig", (AgentConfig,), {})  # type: ignore[attr-defined]
    queue.SpinCondition = type("SpinCondition", (SpinCondition,), {})  # type: ignore[attr-defined]
    api = ModuleType("nixl._api")
    api.nixlBind = binding  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nixl", ModuleType("nixl"))
    monkeypatch.setitem(sys.modules, "nixl._api", api)
    for depth in range(1, QUEUE.count(".") + 1):
        parent = ".".join(QUEUE.split(".")[:depth])
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    monkeypatch.setitem(sys.modules, QUEUE, queue)
    path = RECIPE / "plugin" / "pdctl_cpu_engine.py"
    spec = importlib.util.spec_from_file_location("pdctl_cpu_engine_under_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.atexit, "register", lambda _call: None)
    return module


def agent_delay(asked: int) -> int:
    """What NIXL's binding ends with when its Python side asks for a delay."""
    config = sys.modules["nixl._api"].nixlBind.nixlAgentConfig()
    config.pthrDelay = asked
    return int(config.pthrDelay)


def wait_of_reader(last_read: float, timeout_ms: int | None) -> tuple[float, int | None]:
    """How long a reader polls, and how long it then waits at most."""
    condition = sys.modules[QUEUE].SpinCondition(last_read)
    condition.wait(timeout_ms)
    waited: list[tuple[float, int | None]] = condition.waited
    return waited[0]


def test_progress_delay_is_at_least_ours_however_often_it_is_loaded(plugin: Any) -> None:
    assert agent_delay(0) == 0
    plugin.register()
    plugin.register()
    assert agent_delay(0) == 100
    assert agent_delay(5000) == 5000


@pytest.mark.parametrize(("value", "delay"), [("0", 0), ("250", 250), ("soon", 100)])
def test_progress_delay_follows_its_variable(
    plugin: Any, monkeypatch: pytest.MonkeyPatch, value: str, delay: int
) -> None:
    monkeypatch.setenv("PDCTL_NIXL_PROGRESS_DELAY_US", value)
    plugin.register()
    assert agent_delay(0) == delay


def test_queue_reader_looks_often_when_busy_and_seldom_when_idle(
    plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin.time, "monotonic", lambda: 100.0)
    plugin.register()
    assert wait_of_reader(last_read=99.9, timeout_ms=5000) == (0.0, 1)
    assert wait_of_reader(last_read=98.0, timeout_ms=5000) == (0.0, 50)
    assert wait_of_reader(last_read=98.0, timeout_ms=7) == (0.0, 7)
    assert wait_of_reader(last_read=98.0, timeout_ms=None) == (0.0, 50)


def test_negative_spin_leaves_vllm_alone(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDCTL_QUEUE_SPIN_US", "-1")
    plugin.register()
    assert wait_of_reader(last_read=0.0, timeout_ms=5000) == (1.0, 5000)


def test_process_ends_without_a_last_hunt_for_garbage(
    plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_end: list[object] = []
    monkeypatch.setattr(plugin.atexit, "register", at_end.append)
    plugin.register()
    assert at_end == [gc.freeze]


def test_process_without_nixl_or_vllm_is_left_alone(
    plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nixl._api", None)
    monkeypatch.setitem(sys.modules, QUEUE, None)
    plugin.register()
    assert sys.modules["nixl._api"] is None


def test_instances_are_told_to_use_it() -> None:
    assert int(ENGINE_ENV["PDCTL_NIXL_PROGRESS_DELAY_US"]) > 0
    assert int(ENGINE_ENV["PDCTL_QUEUE_SPIN_US"]) >= 0
    assert ENGINE_ENV["VLLM_NIXL_SIDE_CHANNEL_HOST"] == "127.0.0.1"
    assert ENGINE_ARGS == ("--dtype", "float32", "--enforce-eager")
