// Follows one log: reads the plain-text stream of the admin API and appends its lines.
(() => {
  "use strict";
  const log = document.getElementById("log");
  if (!log) return;
  const $ = (id) => document.getElementById(id);
  const KEEP = 5000; // lines in the page; older ones are in the file
  const ANSI = /\x1b\[[0-9;?]*[ -/]*[@-~]/g;
  let following = log.dataset.follow === "1";
  let stop = null;
  let attempt = 0;
  let needle = "";

  const level = (line) => {
    const head = line.slice(0, 160);
    if (/ERROR|CRITICAL|Traceback/.test(head)) return "bad";
    return head.includes("WARNING") ? "warn" : "";
  };
  const matches = (text) => !needle || text.toLowerCase().includes(needle);
  const say = (text) => {
    $("log-status").textContent = text;
  };
  const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const append = (lines) => {
    const stick = atEnd();
    const piece = document.createDocumentFragment();
    for (const raw of lines) {
      const line = document.createElement("span");
      const text = raw.replace(ANSI, "");
      line.className = "line " + level(text);
      line.textContent = text + "\n";
      line.hidden = !matches(text);
      piece.append(line);
    }
    log.append(piece);
    while (log.childElementCount > KEEP) log.firstElementChild.remove();
    if (stick) log.scrollTop = log.scrollHeight;
  };

  const read = async () => {
    stop = new AbortController();
    const answer = await fetch(log.dataset.source, { signal: stop.signal });
    if (!answer.ok) throw Object.assign(new Error("HTTP " + answer.status), { status: answer.status });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let first = true;
    let rest = "";
    attempt = 0;
    say("Following: new lines appear as they are written.");
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      if (first && lines.length) {
        log.replaceChildren();
        first = false;
      }
      append(lines);
    }
  };
  const follow = async () => {
    while (following) {
      try {
        await read();
        say("The log ended here. Looking for more…");
      } catch (error) {
        if (!following) break;
        if (error.status === 401 || error.status === 403 || error.status === 404) {
          say(error.status === 404 ? "There is no such log now." : "You are signed out.");
          return;
        }
        say("No contact with pdctl: the log is as of before. Reconnecting…");
      }
      attempt += 1;
      const wait = Math.min(15000, 500 * 2 ** Math.min(attempt, 5)) * (0.5 + Math.random() / 2);
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  };

  const button = $("log-follow");
  if (log.dataset.follow === "0") button.remove();
  button.addEventListener("click", () => {
    following = !following;
    button.setAttribute("aria-pressed", String(following));
    button.textContent = following ? "Following" : "Paused";
    if (following) follow();
    else {
      stop?.abort();
      say("Paused: nothing is lost, following again reads on.");
    }
  });
  $("log-wrap").addEventListener("click", (event) => {
    const wrap = log.classList.toggle("wrap");
    event.target.setAttribute("aria-pressed", String(wrap));
  });
  $("log-find").addEventListener("input", (event) => {
    needle = event.target.value.trim().toLowerCase();
    for (const line of log.children) line.hidden = !matches(line.textContent);
  });
  $("log-find").addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
  log.scrollTop = log.scrollHeight;
  follow();
})();
