"""How to run pdctl itself (not what fleet to run: that is the fleet file).

Precedence: command line, then PDCTL_* environment, then these defaults.
"""

from __future__ import annotations

import os
from ipaddress import ip_address
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from pdctl.domain.keeping import DAY_S, MIB, Keeping


def _state_home() -> Path:
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base else Path.home() / ".local" / "state") / "pdctl"


class Settings(BaseSettings):
    """Settings of one `pdctl serve`."""

    model_config = SettingsConfigDict(env_prefix="PDCTL_", extra="ignore")

    admin_host: str = "127.0.0.1"
    """Address of the admin API and the web console."""
    admin_port: int = 8080
    """Port of the admin API and the web console."""
    token: SecretStr | None = None
    """Bearer token of the admin API; needed before it may listen beyond loopback."""
    token_file: Path | None = None
    """File whose first line is the token; safer than the environment."""
    access_file: Path | None = None
    """Users and tokens with roles (`pdctl users`, `pdctl tokens`); `access.toml` in the state
    folder when it is there. With one, everybody signs in, on loopback too."""
    tls_cert: Path | None = None
    """Certificate chain (PEM) of the admin port, with `tls_key`; without: plain HTTP."""
    tls_key: Path | None = None
    """Private key (PEM) of `tls_cert`."""
    trusted_proxies: str = ""
    """Addresses of reverse proxies whose X-Forwarded-For and -Proto count, comma-separated."""
    root_path: str = ""
    """The prefix that a reverse proxy strips, such as "/pdctl"."""
    state_dir: Path = _state_home()
    """Database, instance logs and the run-time records by which instances are adopted."""
    database_url: str = ""
    """SQLAlchemy URL; empty means SQLite in the state folder."""
    log_level: str = "INFO"
    """Level of pdctl's own log."""
    log_format: str = "console"
    """"console" for people, "json" for collectors."""
    keep_requests: int = Field(1_000_000, ge=0)
    """Finished requests kept in the store."""
    keep_requests_mib: int = Field(2048, ge=1)
    """MiB of the store that they may take."""
    keep_requests_days: float = Field(7.0, gt=0)
    """How long they are kept."""
    sample_requests: float = Field(1.0, ge=0, le=1)
    """Share of requests that went well which is stored; failed, retried and slow ones, and those
    that missed an objective, are stored in any case."""
    slow_request_s: float = Field(10.0, gt=0)
    """A request that took as long is slow."""
    keep_latency_days: float = 7.0
    """How long latency by minute is kept in the store."""
    keep_events: int = 20_000
    """Events kept in the store."""
    otlp_endpoint: str = ""
    """OpenTelemetry collector to which the spans of requests go (OTLP/HTTP); empty: nowhere."""
    scrape_interval_s: float = 2.0
    """How often each engine's metrics are read."""

    @property
    def keeping(self) -> Keeping:
        """How much of the requests is kept."""
        return Keeping(
            self.sample_requests, self.slow_request_s * 1000, self.keep_requests,
            self.keep_requests_mib * MIB, self.keep_requests_days * DAY_S,
        )  # fmt: skip

    @property
    def url(self) -> str:
        """The database URL in force."""
        return self.database_url or f"sqlite+aiosqlite:///{self.state_dir / 'pdctl.db'}"

    @property
    def secret(self) -> str | None:
        """The admin token in force, from the file first."""
        if self.token_file is not None:
            return self.token_file.read_text(encoding="utf-8").partition("\n")[0].strip() or None
        return self.token.get_secret_value() if self.token else None

    @property
    def access_path(self) -> Path | None:
        """The access file in force; None: no users."""
        usual = self.state_dir / "access.toml"
        return self.access_file or (usual if usual.exists() else None)

    @model_validator(mode="after")
    def _refuse_half_tls(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            missing = "PDCTL_TLS_KEY" if self.tls_key is None else "PDCTL_TLS_CERT"
            raise ValueError(f"a certificate and its key go together; {missing} is not set")
        for path in (self.tls_cert, self.tls_key):
            if path is not None and not path.is_file():
                raise ValueError(f"{path} is not there")
        return self

    @model_validator(mode="after")
    def _refuse_empty_token_file(self) -> Self:
        if self.token_file is not None and not self.secret:
            raise ValueError(f"{self.token_file} has no token in its first line")
        return self

    @model_validator(mode="after")
    def _refuse_open_admin(self) -> Self:
        if not is_loopback(self.admin_host) and not self.secret and self.access_path is None:
            raise ValueError(
                f"admin_host {self.admin_host} is reachable from other machines, and there is "
                "neither a token nor a user. Set PDCTL_TOKEN_FILE (or PDCTL_TOKEN), add a user "
                "(pdctl users add), or bind to 127.0.0.1."
            )
        return self


def is_loopback(host: str) -> bool:
    """True when `host` cannot be reached from another machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
