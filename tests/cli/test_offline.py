"""Verbs that need no server: help, version, validate, command --file, doctor, and usage errors."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run, free_port

from pdctl.cli import terminal
from pdctl.cli.terminal import MEANING, ExitCode
from pdctl.contract import wire
from pdctl.shim import procfs

# Not pydantic: typer itself reads options with it.
HEAVY = {
    "aiohttp", "alembic", "fastapi", "httpx2", "jinja2", "sqlalchemy", "sqlmodel",
    "starlette", "textual", "tomlkit", "uvicorn", "psutil", "rich", "asyncpg", "prometheus_client",
}  # fmt: skip
VERBS = (
    "demo", "serve", "tui", "status", "mode", "requests", "latency", "logs", "command", "restart",
    "clear", "events", "validate", "doctor", "init", "version", "plan", "apply", "operations",
    "cancel", "resize", "drain", "undrain", "move", "stop", "router",
    "instance",
)  # fmt: skip
FLEET = (
    '[fleet]\nmodel = "m"\nserved_name = "tiny"\n[engine]\nkind = "simulated"\n'
    'env = {{ HF_TOKEN = "very-secret" }}\n'
    "[pools.prefill]\nsize = 1\n[pools.decode]\nsize = 2\n[router]\nport = {port}\n"
)


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET.format(port=free_port()))
    return path


@pytest.mark.parametrize("words", [("--help",), ("version",), ("status", "--help")])
def test_a_quick_question_loads_nothing_heavy(words: tuple[str, ...]) -> None:
    code = (
        "import sys, atexit, json\n"
        f"sys.argv = ['pdctl', *{words!r}]\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        "from pdctl.cli.main import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}
    assert loaded & HEAVY == set()


def test_help_documents_every_exit_code(run: Run) -> None:
    ran = run("--help")
    assert ran.code == 0
    for code, meaning in MEANING.items():
        assert f"{int(code)}  {meaning}" in ran.out
    assert set(MEANING) == set(ExitCode)


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_helps_with_examples(run: Run, name: str) -> None:
    ran = run(name, "--help")
    assert ran.code == 0
    assert f"pdctl {name}" in ran.out.partition("Examples:")[2]


def test_the_schema_version_is_the_contracts() -> None:
    assert terminal.SCHEMA_VERSION == wire.SCHEMA_VERSION


def test_version(run: Run) -> None:
    ran = run("version")
    assert ran.out.startswith("pdctl ")
    assert "Python" in ran.err
    assert run("version", "--quiet").err == ""
    assert run("version", "--json").document["schema_version"] == 1
    assert run("--version").out == ran.out


@pytest.mark.parametrize(
    "words",
    [
        (), ("stauts",), ("status", "--nope"), ("logs",), ("requests", "--limit", "x"),
        ("demo", "--engine", "imagined"), ("serve",), ("tui",),
        ("status", "--token-file", "/no/such/file"),
    ],
)  # fmt: skip
def test_wrong_usage(run: Run, words: tuple[str, ...]) -> None:
    ran = run(*words)
    assert ran.code == 2
    assert "Traceback" not in ran.err


def test_validate_a_good_file(run: Run, fleet: Path) -> None:
    ran = run("validate", fleet)
    assert ran.code == 0
    assert "is valid: fleet, 1p2d, mode pd, tiny on simulated engines." in ran.out
    assert "looks like a secret" in ran.out
    assert run("validate", fleet, "--strict").code == 2
    document = run("validate", fleet, "--json").document
    assert document["valid"] is True
    assert document["fleet"]["shape"] == "1p2d"
    assert [one["severity"] for one in document["mistakes"]] == ["warning"]


def test_validate_shows_the_line_and_what_to_write(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('[fleet]\nmodel = "m"\n\tmod = "pd"\n[engine]\nkind = "simulated"\n')
    ran = run("validate", path)
    assert ran.code == 2
    assert ran.out.splitlines()[:4] == [
        f"{path}:1:1: error: The fleet has no pools.",
        "    [fleet]",
        "    ^",
        "    Add [pools.prefill] and [pools.decode].",
    ]
    assert ran.out.splitlines()[4:] == [
        f"{path}:3:2: error: There is no key `mod` here.",
        '     mod = "pd"',
        "     ^",
        "    Did you mean `mode`?",
    ]
    assert ran.err == "2 mistakes.\n"
    document = run("validate", path, "--json").document
    assert (document["schema_version"], document["valid"], document["fleet"]) == (1, False, None)
    assert document["mistakes"][1]["line"] == 3


def test_validate_reads_stdin(run: Run, fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(fleet.read_bytes())))
    assert run("validate", "-").code == 0


def test_validate_what_is_not_there(run: Run, tmp_path: Path) -> None:
    ran = run("validate", tmp_path / "none.toml")
    assert ran.code == 2
    assert "There is no such file." in ran.out


def test_serve_refuses_a_bad_file_and_bad_settings(
    run: Run, tmp_path: Path, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[fleet]\n")
    ran = run("serve", "--file", path)
    assert ran.code == 2
    assert f"{path}:1:2: error: [fleet] has no `model`." in ran.err
    open_ = run("serve", "--file", fleet, "--admin-host", "0.0.0.0")
    assert open_.code == 2
    assert "reachable from other machines" in open_.err
    monkeypatch.setenv("PDCTL_ADMIN_PORT", "many")
    ran = run("serve", "--file", fleet)
    assert ran.code == 2
    assert "PDCTL_ADMIN_PORT" in ran.err


def test_command_of_a_file(run: Run, fleet: Path) -> None:
    document = run("command", "decode-1", "--file", fleet, "--json").document
    assert document["instance"] == "decode-1"
    assert "very-secret" not in json.dumps(document)
    argv = document["argv"]
    assert argv[argv.index("--port") + 1] == "18002"
    assert run("command", "prefill-0", "--file", fleet).out.count("\n") > 3
    assert (
        "in-process (simulated): no such process runs"
        in run("command", "prefill-0", "--file", fleet).err
    )
    fleet.write_text(fleet.read_text().replace('d"\n', 'd"\nlauncher = "subprocess"\n', 1))
    assert "in-process" not in run("command", "prefill-0", "--file", fleet).err
    ran = run("command", "decode-7", "--file", fleet)
    assert ran.code == 2
    assert "It has: prefill-0, decode-0, decode-1." in ran.err


def test_doctor_names_what_is_wrong_and_the_fix(run: Run, fleet: Path) -> None:
    ran = run("doctor", "--file", fleet, "--url", "http://127.0.0.1:1", "--json")
    checks = {one["name"]: one for one in ran.document["checks"]}
    assert {"python", "memory", "disk", "cores", "router port", "database", "engine"} <= set(checks)
    assert checks["router port"]["ok"] is True
    assert checks["engine"]["detail"] == "simulated: part of pdctl"
    assert checks["fleet file"]["level"] == "warn"
    assert all(one["fix"] for one in checks.values() if one["level"] in ("warn", "bad"))
    assert ran.code == (3 if any(not one["ok"] for one in checks.values()) else 0)


def test_doctor_says_who_holds_a_port(
    run: Run, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        monkeypatch.setenv("PDCTL_ADMIN_PORT", str(held.getsockname()[1]))
        ran = run("doctor", "--url", "http://127.0.0.1:1")
    assert ran.code == 3
    assert "BAD   admin port" in ran.out
    assert "held by pid" in ran.out


def test_doctor_knows_our_own_router_workers(
    run: Run, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDCTL_STATE_DIR", str(tmp_path / "own"))
    home = tmp_path / "own" / "run" / "router"
    home.mkdir(parents=True)
    me = procfs.look(os.getpid())
    assert me is not None
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        fleet.write_text(FLEET.format(port=port))
        record = {
            "pid": os.getpid(), "start": me.start, "boot": procfs.boot_id(), "nonce": "n",
            "slot": 0, "version": "1", "host": "127.0.0.1", "port": port,
        }  # fmt: skip
        (home / "n.json").write_text(json.dumps(record))
        ran = run("doctor", "--file", fleet, "--url", "http://127.0.0.1:1", "--json")
    (check,) = (one for one in ran.document["checks"] if one["name"] == "router port")
    assert check["ok"]
    assert "the next pdctl serve adopts" in check["detail"]


def test_a_wrong_admin_port_is_not_taken_for_the_default(
    run: Run, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDCTL_ADMIN_PORT", "abc")
    ran = run("validate", fleet)
    assert ran.code == 2
    assert "PDCTL_ADMIN_PORT must be a port from 1 to 65535, not 'abc'" in ran.err


def test_doctor_executes_the_engines_interpreter(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(
        f'[fleet]\nmodel = "org/m"\n[engine]\npython = "{sys.executable}"\n'
        '[pools.prefill]\ncores = ["0"]\n[pools.decode]\ncores = ["9999"]\n'
    )
    ran = run("doctor", "--file", path, "--url", "http://127.0.0.1:1", "--json")
    checks = {one["name"]: one for one in ran.document["checks"]}
    assert checks["engine"]["detail"].startswith("Python 3.")
    assert "No module named 'vllm'" in checks["vllm"]["detail"]
    assert "core 9999" in checks["cores"]["detail"]
    assert ran.code == 3
