"""How pdctl itself is configured: above all, that no door stands open by mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from pdctl.settings import Settings, is_loopback


def test_the_token_is_the_files_first_line(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("  s3cret \n# made by an operator\n")
    assert Settings(token_file=file).secret == "s3cret"


@pytest.mark.parametrize("text", ["", "\n", " \nsecond line\n"])
def test_a_token_file_without_a_token_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(ValidationError, match="has no token in its first line"):
        Settings(token_file=file)


def test_beyond_loopback_a_token_or_a_user_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="neither a token nor a user"):
        Settings(admin_host="0.0.0.0", state_dir=tmp_path)
    (tmp_path / "access.toml").touch()
    known = Settings(admin_host="0.0.0.0", state_dir=tmp_path)
    assert known.access_path == tmp_path / "access.toml"
    assert Settings(admin_host="0.0.0.0", token="x").secret == "x"
    assert "'x'" not in repr(Settings(token="x"))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("gpu-box", False), ("", False)],
)  # fmt: skip
def test_loopback_is_known(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_a_certificate_comes_with_its_key(tmp_path: Path) -> None:
    pem = tmp_path / "one.pem"
    pem.touch()
    assert Settings(tls_cert=pem, tls_key=pem).tls_cert == pem
    with pytest.raises(ValidationError, match="PDCTL_TLS_KEY is not set"):
        Settings(tls_cert=pem)
    with pytest.raises(ValidationError, match=r"nothing\.pem is not there"):
        Settings(tls_cert=pem, tls_key=tmp_path / "nothing.pem")
