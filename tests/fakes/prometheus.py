"""A real Prometheus, where one is installed or was fetched by the test set-up."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def find(name: str) -> str | None:
    """The program `prometheus` or `promtool`; None when it is not here."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    fetched = cache / "pdctl" / "prometheus" / "usr" / "bin" / name
    return shutil.which(name) or (str(fetched) if fetched.exists() else None)


@dataclass
class Prometheus:
    """One server, asked over its own API."""

    url: str
    log: Path
    http: httpx2.Client

    def ready(self) -> bool:
        """Whether it has read its files and answers queries."""
        return self.http.get(f"{self.url}/-/ready").status_code == 200

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """What an instant query finds; an expression that it does not understand is an error."""
        answer = self.http.get(f"{self.url}/api/v1/query", params={"query": expression})
        assert answer.status_code == 200, f"{expression}: {answer.text}"
        return list(answer.json()["data"]["result"])


@contextmanager
def running(program: str, folder: Path, port: int, target: str) -> Iterator[Prometheus]:
    """Our own configuration, with a target of this test's and in a hurry."""
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    text = text.replace("127.0.0.1:8080", target).replace(": 15s", ": 1s")
    (folder / "prometheus.yml").write_text(text, encoding="utf-8")
    shutil.copy(DEPLOY / "prometheus" / "rules.yml", folder)
    argv = [program, f"--config.file={folder}/prometheus.yml", "--log.level=warn"]
    argv += [f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
    log = folder / "prometheus.log"
    with log.open("wb") as out, subprocess.Popen(argv, stdout=out, stderr=out) as process:
        try:
            with httpx2.Client(timeout=30) as http:
                yield Prometheus(f"http://127.0.0.1:{port}", log, http)
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
