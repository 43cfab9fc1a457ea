"""Nothing of others runs in our page, and nothing happens that its reader did not ask for."""

from __future__ import annotations

import html
import re
import shlex
from dataclasses import replace
from urllib.parse import quote, unquote

import pytest

from pdctl.cli.main import app as commands
from pdctl.domain.events import EventKind
from pdctl.domain.request_query import RequestQuery
from pdctl.domain.topology import Mode
from pdctl.web.assets import templates_dir
from pdctl.web.security import local_path
from tests.fakes.people import PASSWORD
from tests.web.conftest import Opener
from tests.web.site import HERE, Browser

HOSTILE = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>{{7*7}}"
INLINE = re.compile(
    r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|javascript:", re.IGNORECASE
)


@pytest.mark.parametrize(
    "path", ["/", "/requests", "/nope", "/sign-in", "/ui/fleet", "/static/console.css"]
)
async def test_every_answer_has_a_strict_policy(browser: Browser, path: str) -> None:
    answer = await browser.http.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == ("no-cache" if "static" in path else "no-store")


def test_no_template_holds_inline_script_or_style() -> None:
    files = sorted(templates_dir().rglob("*.html"))
    assert len(files) > 15
    for path in files:
        assert not INLINE.search(path.read_text(encoding="utf-8")), path.name
        assert "|safe" not in path.read_text(encoding="utf-8"), path.name


async def test_hostile_text_is_shown_and_never_run(browser: Browser) -> None:
    world = browser.world
    record = world.requests.query(RequestQuery(limit=1))[0]
    legs = tuple(replace(leg, why=HOSTILE, error=HOSTILE) for leg in record.legs)
    evil = replace(record, id=HOSTILE, error=HOSTILE, path_reason=HOSTILE, legs=legs, model=HOSTILE)
    world.requests.add(evil)
    one = world.state.fleet.instances[0]
    world.change(one.id, one.phase, one.reason, HOSTILE)
    world.publish(EventKind.NOTICE, HOSTILE, {"level": "info", "message": HOSTILE})
    log = world.plane.log_path(one.id, False)
    assert log is not None
    log.write_text(HOSTILE + "\n", encoding="utf-8")
    listed = await browser.get("/requests")
    link = next(a["href"] for a in listed.all("a") if "script" in a.get("title", ""))
    for path in ("/", "/requests", link, f"/instances/{one.id}", f"/logs?instance={one.id}"):
        page = await browser.get(path)
        assert HOSTILE in page.text or HOSTILE.split("{", maxsplit=1)[0] in page.text, path
        assert "<script>alert" not in page.html, path
        assert "49" not in re.findall(r"alert\(2\)'&gt;(\d+)", page.html)
        assert not page.all("img"), path
        assert not INLINE.search(page.html.replace("onerror", "")), path


async def test_a_line_to_copy_is_one_harmless_command(browser: Browser) -> None:
    record = browser.world.requests.query(RequestQuery(limit=1))[0]
    evil = "x; rm -rf ~ $(id) `id`"
    browser.world.requests.add(replace(record, id=evil))
    pages = [
        await browser.get("/requests/" + quote(evil, safe="")),
        await browser.get("/logs?instance=" + quote(evil)),
    ]
    lines = [
        attrs["data-copy"] for page in pages for attrs in page.all("button") if "data-copy" in attrs
    ]
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line)
        assert words[0] in ("pdctl", "curl")
        assert evil in (unquote(words[-1].rpartition("/")[2]), words[2] if len(words) > 2 else "")


def test_the_commands_shown_exist() -> None:
    known = {command.name for command in commands.registered_commands}
    known |= {group.name for group in commands.registered_groups}
    text = "".join(path.read_text("utf-8") for path in templates_dir().rglob("*.html"))
    shown = set(re.findall(r"""[\[(]"pdctl", "(\w+)\"""", text))
    assert {"requests", "logs", "command"} <= shown
    assert shown <= known


async def test_terminal_colours_do_not_reach_the_page(browser: Browser) -> None:
    log = browser.world.plane.log_path("prefill-0", False)
    assert log is not None
    log.write_text("\x1b[31mERROR red\x1b[0m plain\n", encoding="utf-8")
    page = await browser.get("/logs?instance=prefill-0")
    assert "ERROR red plain" in page.text
    assert "\x1b" not in page.html


async def test_switching_the_mode_without_scripts(browser: Browser) -> None:
    fleet = await browser.get("/")
    asked = next(a["href"] for a in fleet.all("a") if a.get("id") == "switch")
    question = await browser.get(asked)
    for word in (
        "New requests are served whole",
        "finish as begun",
        "pdctl mode chunked",
        "curl -X PUT",
    ):
        assert word in question.text, word
    answer = await browser.post("/mode", question.fields)
    assert (answer.status_code, answer.headers["location"]) == (303, "/?done=chunked")
    assert browser.world.state.fleet.desired.mode is Mode.CHUNKED
    done = await browser.get("/?done=chunked")
    assert "New requests are now served whole on one instance." in done.text
    assert "Switch to PD" in done.text
    operation = browser.world.feed.recent(1)[0]
    assert operation.data["source"] == "web"


@pytest.mark.parametrize(
    ("spoil", "headers", "status"),
    [
        ({"csrf": ""}, {}, 403),
        ({"csrf": "made-up"}, {}, 403),
        ({}, {"Origin": "http://evil.example"}, 403),
        ({}, {"Sec-Fetch-Site": "cross-site"}, 403),
        ({}, {"Sec-Fetch-Site": "same-site"}, 403),
        ({"to": "warp"}, {}, 400),
        ({"pad": "x" * 20_000}, {}, 413),
    ],
)
async def test_a_post_that_is_not_ours_changes_nothing(
    browser: Browser, spoil: dict[str, str], headers: dict[str, str], status: int
) -> None:
    fields = (await browser.get("/mode?to=chunked")).fields
    answer = await browser.post("/mode", fields | spoil, **headers)
    assert answer.status_code == status
    assert browser.world.state.fleet.desired.mode is Mode.PD


async def test_a_post_without_the_cookie_changes_nothing(browser: Browser) -> None:
    fields = (await browser.get("/mode?to=chunked")).fields
    browser.http.cookies.clear()
    assert (await browser.post("/mode", fields)).status_code == 403
    assert browser.world.state.fleet.desired.mode is Mode.PD


async def test_reading_never_changes_anything(browser: Browser) -> None:
    await browser.get("/mode?to=chunked")
    await browser.get("/change?restart=prefill-0")
    assert browser.world.state.fleet.desired.mode is Mode.PD
    assert (await browser.http.get("/instances/prefill-0/explode")).status_code == 404


async def test_failures_are_cleared(opened: Opener) -> None:
    browser: Browser = await opened("failing")
    browser.world.store.failing = False
    question = await browser.get("/instances/prefill-0/clear")
    assert "Try prefill-0 again?" in question.text
    answer = await browser.post("/instances/prefill-0/clear", question.fields)
    assert answer.headers["location"] == "/instances/prefill-0?done=clear"
    one = browser.world.state.fleet.instance("prefill-0")
    assert one is not None
    assert one.phase.value == "pending"
    again = await browser.post("/instances/prefill-0/clear", question.fields)
    assert again.status_code == 409
    assert "prefill-0" in again.text


async def test_a_token_is_asked_for_and_kept_from_scripts(opened: Opener) -> None:
    browser: Browser = await opened(token="s3cret-token")
    turned = await browser.http.get("/requests?path=pd")
    assert turned.status_code == 303
    assert turned.headers["location"] == "/sign-in?next=%2Frequests%3Fpath%3Dpd"
    assert (await browser.http.get("/ui/fleet")).status_code == 401
    form = await browser.get(turned.headers["location"])
    wrong = await browser.post("/sign-in", form.fields | {"token": "guess"})
    assert wrong.status_code == 401
    assert "That token was not accepted." in wrong.text
    right = await browser.post("/sign-in", form.fields | {"token": "s3cret-token"})
    assert (right.status_code, right.headers["location"]) == (303, "/requests?path=pd")
    cookie = next(c for c in right.headers.get_list("set-cookie") if "pdctl_token" in c).lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    page = await browser.get("/requests?path=pd")
    assert "Sign out" in page.text
    assert "s3cret-token" not in page.html
    assert "$PDCTL_TOKEN" in (await browser.get("/mode?to=chunked")).text
    await browser.post("/sign-out", page.fields)
    assert (await browser.http.get("/")).status_code == 303


async def test_a_person_signs_in_by_name_and_is_told_what_they_may_not(opened: Opener) -> None:
    browser: Browser = await opened(token="of-the-server", users=True)
    form = await browser.get((await browser.http.get("/")).headers["location"])
    wrong = await browser.post("/sign-in", form.fields | {"user": "vera", "password": "x"})
    assert (wrong.status_code, "name or the password is wrong" in wrong.text) == (401, True)
    right = await browser.post("/sign-in", form.fields | {"user": "vera", "password": PASSWORD})
    assert (right.status_code, right.headers["location"]) == (303, "/")
    page = await browser.get("/")
    assert "vera viewer" in page.text
    question = await browser.get("/mode?to=chunked")
    refused = await browser.post("/mode", question.fields)
    assert refused.status_code == 403
    assert "takes the role operator; vera has the role viewer" in html.unescape(refused.text)
    assert browser.world.state.fleet.desired.mode is Mode.PD
    stolen = browser.http.cookies["pdctl_token"]
    await browser.post("/sign-out", page.fields)
    headers = {"authorization": f"Bearer {stolen}"}
    assert (await browser.http.get("/api/v1/fleet", headers=headers)).status_code == 401


async def test_who_guesses_in_the_console_waits(opened: Opener) -> None:
    browser: Browser = await opened(token="of-the-server", users=True)
    form = await browser.get("/sign-in")
    for _ in range(5):
        await browser.post("/sign-in", form.fields | {"user": "ada", "password": "wrong"})
    held = await browser.post("/sign-in", form.fields | {"user": "ada", "password": PASSWORD})
    assert held.status_code == 429
    assert "Try again in 2 s." in held.text


async def test_the_servers_own_token_is_never_lent(opened: Opener) -> None:
    """The injected client holds the token; a browser that has none must not profit from it."""
    browser: Browser = await opened(token="s3cret-token")
    for path in ("/", "/ui/fleet", "/logs", "/instances/prefill-0", "/mode?to=chunked"):
        answer = await browser.http.get(path)
        assert answer.status_code in (303, 401), path
        assert "prefill-0" not in answer.text, path


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/requests?a=1", "/requests?a=1"), ("//evil.example", "/"), ("https://evil.example", "/"),
        ("/\\evil.example", "/"), ("", "/"), ("javascript:alert(1)", "/"), ("/a\nb", "/"),
    ],
)  # fmt: skip
def test_after_signing_in_one_stays_here(text: str, kept: str) -> None:
    assert local_path(text) == kept


async def test_hosts_of_others_are_refused(browser: Browser) -> None:
    answer = await browser.http.get("/", headers={"Host": "rebound.example"})
    assert answer.status_code == 403
    assert HERE not in answer.text
