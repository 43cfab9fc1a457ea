// Keeps a server-rendered page live. The facts of the event stream (feed.js) are gathered and passed
// on as few "pd:*" events, on which htmx fetches fragments. No data is kept here.
(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  const url = (path) => root.dataset.root + path;

  // ---- appearance: theme and time zone --------------------------------------------------------
  const keep = (name, value) => {
    try {
      localStorage.setItem("pdctl." + name, value);
    } catch {
      /* the choice lasts for this page only */
    }
  };
  const THEMES = ["auto", "light", "dark"];
  const paintTheme = () => {
    const now = root.dataset.theme || "auto";
    $("theme").textContent = now[0].toUpperCase() + now.slice(1);
    $("theme").setAttribute("aria-label", "Theme: " + now);
  };
  const nextTheme = () => {
    const now = root.dataset.theme || "auto";
    const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    keep("theme", next);
    paintTheme();
  };
  const paintZone = () => {
    const local = root.dataset.zone === "local";
    $("zone").textContent = local ? "Local" : "UTC";
    $("zone").setAttribute("aria-label", "Times are shown in " + (local ? "local time" : "UTC"));
  };
  const nextZone = () => {
    root.dataset.zone = root.dataset.zone === "local" ? "utc" : "local";
    keep("zone", root.dataset.zone);
    paintZone();
    localise(document);
  };

  // ---- times ----------------------------------------------------------------------------------
  let skew = 0; // server clock minus browser clock, ms
  const pad = (number, width = 2) => String(number).padStart(width, "0");
  const clock = (at, style) => {
    const local = root.dataset.zone === "local";
    const part = (name) => (local ? at["get" + name]() : at["getUTC" + name]());
    const time = `${pad(part("Hours"))}:${pad(part("Minutes"))}:${pad(part("Seconds"))}`;
    const date = `${pad(part("Month") + 1)}-${pad(part("Date"))}`;
    const old = Date.now() + skew - at > 12 * 3600 * 1000; // a bare time would be taken for today's
    if (style === "brief") return time;
    if (style !== "full") return `${old ? date + " " : ""}${time}.${pad(part("Milliseconds"), 3)}`;
    const day = `${part("FullYear")}-${date}`;
    return `${day} ${time} ${local ? "local time" : "UTC"}`;
  };
  const span = (seconds) => {
    const whole = Math.max(0, Math.floor(seconds));
    for (const [size, unit, smaller, small] of [
      [86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"],
    ]) {
      if (whole < size) continue;
      const rest = Math.floor((whole % size) / smaller);
      return `${Math.floor(whole / size)} ${unit}` + (rest ? ` ${rest} ${small}` : "");
    }
    return `${whole} s`;
  };
  const write = (node, text) => {
    if (node.textContent !== text) node.textContent = text;
  };
  const localise = (scope) => {
    for (const node of scope.querySelectorAll("time[data-time]")) {
      write(node, clock(new Date(node.dateTime), node.dataset.time));
    }
    age(scope);
  };
  const age = (scope) => {
    const now = Date.now() + skew;
    for (const node of scope.querySelectorAll("time[data-age]")) {
      write(node, span((now - Date.parse(node.dateTime)) / 1000));
    }
  };
  const readClock = (scope) => {
    const word = scope.querySelector("#state-word");
    if (word) skew = Date.parse(word.dataset.now) - Date.now();
  };

  // ---- state in title and icon ----------------------------------------------------------------
  const name = document.title.includes(" · ") && $("state-word")
    ? document.title.split(" · ").slice(1).join(" · ")
    : document.title;
  const paintState = (offline) => {
    const word = $("state-word");
    if (!word) return;
    const title = offline ? "? Stale" : word.dataset.title;
    document.title = `${title} · ${name}`;
    const icon = $("favicon");
    const wanted = url(`/static/icon-${offline ? "idle" : word.dataset.state}.svg?v=`) + root.dataset.assets;
    if (icon.getAttribute("href") !== wanted) icon.setAttribute("href", wanted);
    if (word.dataset.assets !== root.dataset.assets) {
      say("pdctl was updated. Reload this page for its new version.", "info", "Reload", location.href);
    }
  };

  // ---- the banner: what is wrong with the connection, and how old the page is -----------------
  const GRACE_MS = 4000;
  let lastGood = Date.now();
  let shown = Date.now(); // a tab that was in the background gets time to catch up
  const silent = () => Date.now() - Math.max(lastGood, shown) > GRACE_MS;
  let streamOpen = false;
  let tried = false; // the first connection has been answered or has failed
  let failing = false; // the last fragment did not come
  let gone = false; // the last question found nobody there: no need to wait before saying so
  const offline = () => !denied && (gone || silent());
  let denied = false;
  let leave = null; // stops listening to the stream
  const pause = () => {
    leave?.();
    leave = null;
    streamOpen = false;
  };
  const deny = () => {
    denied = true; // asking again would only be refused again
    pause();
  };
  const say = (text, tone, word, href) => {
    const banner = $("banner");
    const key = text + (href || "");
    if (banner.dataset.key === key && !banner.hidden) return;
    banner.dataset.key = key;
    banner.className = "banner " + tone;
    banner.textContent = text + " ";
    if (href) {
      const link = document.createElement("a");
      link.href = href;
      link.textContent = word;
      banner.append(link);
    }
    banner.hidden = false;
  };
  const hush = () => {
    const banner = $("banner");
    if (banner.className.includes("info")) return;
    banner.hidden = true;
    banner.dataset.key = "";
  };
  const paintStream = () => {
    const pill = $("stream");
    if (!$("feed")) return;
    pill.hidden = false;
    const live = streamOpen && !failing && !denied;
    const opening = !live && !failing && !offline() && (!tried || shown > lastGood);
    pill.dataset.tone = live ? "ok" : opening ? "idle" : "warn";
    $("stream-word").textContent = live ? "live" : denied ? "signed out" : opening ? "connecting" : "offline";
    root.classList.toggle("is-stale", !live && offline());
    if (denied) {
      const back = encodeURIComponent(location.pathname + location.search);
      say("You are signed out, so this page no longer updates.", "warn", "Sign in", url("/sign-in?next=" + back));
    } else if (live) {
      if (!$("banner").hidden) $("announce").textContent = "Connected again.";
      hush();
    } else if (offline()) {
      const seen = clock(new Date(lastGood + skew), "full");
      say(`No contact with pdctl. What you see is as of ${seen}. Reconnecting…`, "warn");
    }
    paintState(!live && offline());
  };

  // ---- from the feed to fragments -------------------------------------------------------------
  // Each topic is told at most once per interval (ms); samples without events are asked for by time.
  const EVERY = { fleet: 500, state: 500, facts: 1000, requests: 1000, latency: 3000, signals: 1000 };
  const SAMPLE_MS = 2000;
  const SHARE = 6; // a fragment may take 1/SHARE of the time: a big fleet is asked for less often
  const took = {};
  const due = {};
  const told = {};
  const tell = (topic) => {
    if (document.hidden || denied) return;
    const pause = Math.max(EVERY[topic], SHARE * (took[topic] || 0));
    const wait = (told[topic] || 0) + pause - Date.now();
    if (due[topic]) return;
    due[topic] = setTimeout(() => {
      due[topic] = 0;
      if (document.hidden || denied) return;
      told[topic] = Date.now();
      document.body.dispatchEvent(new CustomEvent("pd:" + topic));
    }, Math.max(0, wait));
  };
  const tellAll = () => Object.keys(EVERY).forEach(tell);
  const TOPICS = {
    "fleet.changed": ["fleet", "state", "facts"],
    "instance.changed": ["fleet", "state", "facts"],
    "pair.changed": ["fleet", "facts"],
    "instance.stop_rung": ["facts"],
    "request.finished": ["requests", "latency", "fleet"],
    operation: ["facts", "fleet"],
    "signal.changed": ["signals", "state", "facts"],
    notice: ["facts"],
    reset: Object.keys(EVERY),
  };
  const announce = (kind, data) => {
    if (kind !== "instance.changed" && kind !== "fleet.changed") return;
    try {
      const fact = JSON.parse(data);
      const what = fact.data.phase ? `is ${fact.data.phase}` : "changed";
      $("announce").textContent = `${fact.subject} ${what}`;
    } catch {
      /* an event without a readable body still refreshes the page */
    }
  };

  const feed = $("feed");
  if (feed) {
    const hear = (message) => {
      if (denied || document.hidden) return;
      if (message.type === "fact") {
        TOPICS[message.kind].forEach(tell);
        announce(message.kind, message.data);
        return;
      }
      tried = true;
      streamOpen = message.type === "open";
      if (streamOpen) {
        gone = false;
        lastGood = Date.now();
      }
      paintStream();
      if (streamOpen) return tellAll(); // what happened while nobody listened
      told.state = 0; // ask at once whether anybody is there at all, and whether we may
      tell("state");
    };
    const join = () => {
      if (denied || document.hidden || leave) return;
      leave = pdctlFeed.join(feed.dataset.source, Object.keys(TOPICS), hear);
    };
    join();
    addEventListener("pagehide", pause);
    addEventListener("pageshow", join); // back from the browser's memory
    setInterval(() => {
      tell("fleet");
      tell("state");
      tell("signals");
    }, SAMPLE_MS);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) return pause();
      shown = Date.now();
      gone = false;
      join();
      paintStream();
      tellAll();
    });
  }

  document.addEventListener("htmx:before:swap", (event) => {
    readFragment(event.detail.tasks || []);
  });
  const readFragment = (tasks) => {
    for (const task of tasks) {
      readClock(task.fragment);
      localise(task.fragment); // before the morph, so that live text does not flicker
      reveal(task.fragment);
    }
  };
  document.addEventListener("htmx:after:swap", (event) => {
    if (event.target.id === "dialog") return openDialog();
    const cause = event.detail.ctx.sourceEvent?.type || "";
    const topic = cause.startsWith("pd:") ? cause.slice(3) : "";
    if (told[topic]) took[topic] = Date.now() - told[topic];
    lastGood = Date.now();
    failing = gone = false;
    paintState(false);
    paintStream();
  });
  document.addEventListener("htmx:response:error", (event) => {
    const status = event.detail.ctx.response.status;
    if (status === 401 || status === 403) deny();
    failing = true;
    gone = status >= 502 && status <= 504;
    paintStream();
  });
  document.addEventListener("htmx:error", (event) => {
    if (event.detail.error?.name === "AbortError") return;
    gone = true;
    failing = true;
    paintStream();
  });
  // A fragment never knows what the reader has opened.
  htmx.registerExtension("pdctl", {
    htmx_before_morph_attr: (node, detail) => !(node.tagName === "DETAILS" && detail.attrName === "open"),
  });

  // ---- dialogs: the confirmation page, shown in place -----------------------------------------
  let opener = null;
  // Leaving for a page that nobody serves would lose this one, which still shows the last state.
  const cannot = () => {
    say("No contact with pdctl: that cannot be shown now, and nothing was changed. Reconnecting…", "warn");
    $("announce").textContent = "No contact with pdctl; nothing was changed.";
  };
  const complain = (form, text) => {
    let line = form.parentElement.querySelector(".failure");
    if (!line) {
      line = document.createElement("p");
      line.className = "failure";
      line.setAttribute("role", "alert");
      form.before(line);
    }
    line.textContent = text;
  };
  const send = async (form, submitter) => {
    const data = new URLSearchParams(new FormData(form, submitter));
    const answer = await fetch(form.action, { method: "POST", body: data });
    if (answer.ok) return location.assign(answer.url);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const lines = [...page.querySelectorAll(".error-page h1, .error-page h1 ~ p:not(.buttons, .small)")];
    complain(form, lines.map((line) => line.textContent.trim()).join(" ") || `It was refused (${answer.status}).`);
  };
  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("#dialog form");
    if (!form) return;
    event.preventDefault();
    const buttons = form.querySelectorAll("button");
    buttons.forEach((button) => (button.disabled = true));
    try {
      await send(form, event.submitter);
    } catch {
      complain(form, "pdctl did not answer: whether this was done is not known. Look again when it is back.");
    }
    buttons.forEach((button) => (button.disabled = false));
  });
  const openDialog = () => {
    const dialog = $("dialog");
    if (!dialog.open) dialog.showModal();
    const cancel = dialog.querySelector("[data-close]");
    if (cancel) cancel.focus();
  };
  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const ask = event.target.closest("a[data-dialog]");
    if (ask) {
      event.preventDefault();
      opener = ask.id || null;
      htmx
        .ajax("GET", ask.dataset.fragment, { source: $("dialog"), target: $("dialog"), swap: "innerHTML" })
        .then(() => $("dialog").open || (offline() ? cannot() : location.assign(ask.href)))
        .catch(cannot);
    } else if (event.target.closest("#dialog [data-close]") || event.target === $("dialog")) {
      event.preventDefault();
      $("dialog").close();
    } else if (feed && offline() && event.target.closest("a[href]")?.origin === location.origin) {
      event.preventDefault();
      cannot();
    }
  });
  $("dialog").addEventListener("close", () => {
    $("dialog").replaceChildren();
    if (opener && $(opener)) $(opener).focus();
  });

  // ---- small conveniences ---------------------------------------------------------------------
  const reveal = (scope) => {
    for (const node of scope.querySelectorAll(".copy, .script-only, .keys")) node.hidden = false;
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  for (const kind of ["focusin", "mouseover"]) {
    document.addEventListener(kind, (event) => {
      const cell = event.target.closest?.("[data-said]");
      if (cell && $("pair-said")) write($("pair-said"), cell.dataset.said);
    });
  }
  let leader = 0;
  const GO = {
    f: "/", r: "/requests", p: "/pairs", o: "/operations", h: "/history", a: "/audit", e: "/events", l: "/logs", s: "/signals",
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("dialog").open) return;
    if (event.target.closest("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const key = event.key;
    if (Date.now() - leader < 1200 && GO[key]) location.assign(url(GO[key]));
    else if (key === "g") leader = Date.now();
    else if (key === "/") {
      const field = document.querySelector('[data-focus="/"]');
      if (field && !field.closest("[hidden]")) {
        event.preventDefault();
        field.focus();
      }
    } else if (key === "t") nextTheme();
    else if (key === "z") nextZone();
  });
  for (const form of document.querySelectorAll("form[data-auto], form.filters")) {
    form.addEventListener("change", (event) => {
      if (event.target.tagName === "SELECT") form.requestSubmit();
    });
  }
  const retry = document.querySelector("[data-retry]");
  if (retry) {
    $("retry-word").textContent = "This page tries again by itself.";
    const poll = async () => {
      try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
        if (answer.status < 500) return location.reload();
      } catch {
        /* still down */
      }
      setTimeout(poll, 2000 + Math.random() * 1000);
    };
    setTimeout(poll, 2000);
  }

  // ---- start ----------------------------------------------------------------------------------
  $("theme").hidden = $("zone").hidden = false;
  $("theme").addEventListener("click", nextTheme);
  $("zone").addEventListener("click", nextZone);
  paintTheme();
  paintZone();
  readClock(document);
  reveal(document);
  localise(document);
  setInterval(() => {
    age(document);
    paintStream();
  }, 1000);
})();
