"""What the folder of a start says, also to a pdctl that is older or newer than its writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.adapters.launchers.orders import command

from pdctl.adapters.supervision import starts
from pdctl.shim import records


def test_an_order_of_another_version_is_still_ours(tmp_path: Path) -> None:
    home = tmp_path / "n"
    order = command("engine", env=(("A", "b"),))
    starts.prepare(home, order, {}, at=1.0)
    assert starts.order_of(home) == order
    data: dict[str, Any] = records.read(str(home), records.ORDER) or {}
    data["order"]["fresh_field"] = {"of": "a newer pdctl"}
    data["order"]["slot"]["fresh_field"] = 1
    records.write(str(home), records.ORDER, data)
    assert starts.order_of(home) == order
    del data["order"]["nonce"]
    records.write(str(home), records.ORDER, data)
    assert starts.order_of(home) is None


def test_an_exit_names_who_outlived_it(tmp_path: Path) -> None:
    assert starts.exit_of(tmp_path) is None
    said = {"code": 0, "at": 5.0, "last_lines": ["HF_TOKEN=hf_abcdefgh"], "survivors": [7, 8]}
    records.write(str(tmp_path), records.EXIT, said)
    found = starts.exit_of(tmp_path)
    assert found is not None
    assert found.survivors == (7, 8)
    assert "abcdefgh" not in found.last_lines[0]
