// One event stream for all tabs of this browser: browsers open six connections to a server at most. It
// is this file as a shared worker that holds the stream; where there are none, each page holds its own.
(() => {
  "use strict";
  const LONGEST_MS = 30000;

  /** A stream that is open while somebody listens; the first listener says where it begins. */
  const share = () => {
    const listeners = new Set();
    let source = null;
    let retry = 0;
    let attempt = 0;
    let last = "";
    const tell = (message) => listeners.forEach((say) => say(message));
    const open = (url, kinds) => {
      const from = new URL(url, self.location.href);
      if (last) from.searchParams.set("after", last);
      source = new EventSource(from);
      source.onopen = () => {
        attempt = 0;
        tell({ type: "open" });
      };
      source.onerror = () => {
        tell({ type: "lost" });
        if (!source || source.readyState !== EventSource.CLOSED) return; // the browser tries again
        attempt += 1;
        const wait = Math.min(LONGEST_MS, 500 * 2 ** Math.min(attempt, 6)) * (0.5 + Math.random() / 2);
        retry = setTimeout(() => open(url, kinds), wait);
      };
      for (const kind of kinds) {
        source.addEventListener(kind, (event) => {
          last = event.lastEventId || last;
          tell({ type: "fact", kind, data: event.data });
        });
      }
    };
    const leave = (say) => {
      if (!listeners.delete(say) || listeners.size) return;
      clearTimeout(retry);
      source.close();
      source = null;
      last = "";
    };
    return {
      join(url, kinds, say) {
        listeners.add(say);
        if (!source) open(url, kinds);
        else if (source.readyState === EventSource.OPEN) say({ type: "open" });
        return () => leave(say);
      },
    };
  };

  if ("SharedWorkerGlobalScope" in self) {
    const stream = share();
    self.onconnect = ({ ports: [port] }) => {
      let leave = null;
      port.onmessage = ({ data }) => {
        leave?.();
        leave = data.url ? stream.join(data.url, data.kinds, (message) => port.postMessage(message)) : null;
        if (!data.url) port.close();
      };
    };
    return;
  }
  const here = document.currentScript.src;
  const own = share();
  window.pdctlFeed = {
    /** Listen; `hear` gets {type: "open" | "lost"} and {type: "fact", kind, data}. Returns how to stop. */
    join(url, kinds, hear) {
      if (!("SharedWorker" in window)) return own.join(url, kinds, hear);
      let left = false;
      const { port } = new SharedWorker(here, { name: "pdctl" });
      port.onmessage = ({ data }) => left || hear(data);
      port.postMessage({ url, kinds });
      return () => {
        left = true;
        port.postMessage({});
      };
    },
  };
})();
