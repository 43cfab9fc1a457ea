"""Wire models of signing in, and of who is asking."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from pdctl.contract.wire import Wire


class SignIn(BaseModel):
    """A user's name and password."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"user": "alice", "password": "correct horse"}]},
    )

    user: str = Field(min_length=1, max_length=64)
    password: str = Field(min_length=1, max_length=1024)


class WhoView(Wire):
    """Who asks, and what they may do."""

    name: str
    role: str
    """viewer | operator | admin"""
    kind: str
    """user | token | loopback"""
    users: bool
    """Whether this server knows users, who sign in with a password."""


class SessionView(Wire):
    """A session that has begun: show `token` as a Bearer, for example."""

    token: str
    name: str
    role: str
    expires_at: datetime
