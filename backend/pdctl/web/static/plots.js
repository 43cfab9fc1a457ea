// Draws the charts of the page with uPlot, from the columns that each chart carries. Without it the
// server's own drawing is there; what is drawn here stays in its place when a fragment comes.
(() => {
  "use strict";
  const root = document.documentElement;
  const HEIGHT = 170;
  const plots = new Map(); // id of the place -> what is drawn there
  let zoom = fromHash(); // [from, to] in seconds, of all charts; null: the whole window

  function fromHash() {
    const found = /^#t=(\d+)\.\.(\d+)$/.exec(location.hash);
    return found && +found[1] < +found[2] ? [+found[1], +found[2]] : null;
  }
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const say = (unit, value) => {
    if (value === null || value === undefined) return "—";
    if (unit === "/s") return (value >= 10 ? value.toFixed(0) : value.toFixed(1)) + "/s";
    if (value >= 1000) return (value / 1000).toFixed(2) + " s";
    return (value >= 10 ? value.toFixed(0) : value.toFixed(1)) + " ms";
  };
  const two = (number) => String(number).padStart(2, "0");
  const time = (seconds) => {
    const at = new Date(seconds * 1000);
    const get = root.dataset.zone === "local" ? "get" : "getUTC";
    return ["Hours", "Minutes", "Seconds"].map((part) => two(at[get + part]())).join(":");
  };

  const show = (span) => {
    zoom = span;
    const to = span ? `#t=${Math.floor(span[0])}..${Math.ceil(span[1])}` : location.pathname + location.search;
    history.replaceState(history.state, "", to);
    for (const one of plots.values()) one.plot.setScale("x", { min: 0, max: 1 });
  };
  // A line shows itself; a slice between two gaps has none, and gets a dot.
  const alone = (u, series) => {
    const values = u.data[series];
    const here = (at) => values[at] !== null && values[at] !== undefined;
    return [...values.keys()].filter((at) => here(at) && !here(at - 1) && !here(at + 1));
  };
  const options = (place, one) => {
    const { unit, lines } = one.data;
    const axis = { stroke: () => colour("muted"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { show: false } };
    return {
      width: Math.max(place.clientWidth, 200),
      height: HEIGHT,
      scales: { x: { range: () => zoom || one.data.span }, y: { range: (u, low, high) => [0, (high || 1) * 1.05] } },
      axes: [
        { ...axis, values: (u, at) => at.map(time), space: 90, size: 30 },
        { ...axis, values: (u, at) => at.map((value) => (value ? say(unit, value) : "0")), size: 64 },
      ],
      series: [
        { label: "Time", value: (u, at) => (at === null ? "—" : time(at)) },
        ...lines.map((line) => ({
          label: line.label,
          stroke: () => colour(line.colour),
          width: 2,
          points: { show: true, size: 4, fill: () => colour(line.colour), filter: alone },
          dash: line.dashed ? [2, 5] : undefined,
          value: (u, value) => say(unit, value),
        })),
      ],
      legend: { markers: { dash: (u, at) => (u.series[at].dash ? "dotted" : "solid"), fill: "transparent" } },
      cursor: {
        sync: { key: "pdctl", setSeries: false },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => show(null) },
      },
      hooks: {
        setSelect: [
          (u) => {
            if (u.select.width < 4) return;
            const [left, right] = [u.select.left, u.select.left + u.select.width];
            const span = [u.posToVal(left, "x"), u.posToVal(right, "x")];
            u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            show(span);
          },
        ],
      },
    };
  };
  // Nobody points at anything: the legend says what is newest.
  const latest = ({ plot, data }) => {
    if (plot.cursor.idx === null || plot.cursor.idx === undefined) plot.setLegend({ idx: data.times.length - 1 }, false);
  };
  const shape = (data) => JSON.stringify([data.unit, data.lines.map((line) => line.label)]);
  const columns = (data) => [data.times, ...data.lines.map((line) => line.values)];
  const draw = (source) => {
    const place = document.getElementById(source.dataset.for);
    const data = JSON.parse(source.dataset.plot);
    const before = plots.get(place.id);
    if (before && before.place === place && shape(before.data) === shape(data)) {
      before.data = data;
      before.plot.setData(columns(data));
      latest(before);
      return;
    }
    forget(place.id);
    const one = { place, data };
    one.plot = new uPlot(options(place, one), columns(data), place);
    one.watch = new ResizeObserver(() => {
      if (place.clientWidth && place.clientWidth !== one.plot.width) {
        one.plot.setSize({ width: place.clientWidth, height: HEIGHT });
      }
    });
    one.watch.observe(place);
    plots.set(place.id, one);
    latest(one);
  };
  const forget = (id) => {
    const one = plots.get(id);
    if (!one) return;
    one.watch.disconnect();
    one.plot.destroy();
    plots.delete(id);
  };
  const drawAll = () => {
    for (const id of [...plots.keys()]) if (!document.getElementById(id)) forget(id);
    document.querySelectorAll("[data-plot]").forEach(draw);
  };
  const repaint = () => plots.forEach((one) => one.plot.redraw(false, true));

  root.classList.add("drawn");
  drawAll();
  document.addEventListener("htmx:after:swap", (event) => event.target.id === "live-trends" && drawAll());
  new MutationObserver(repaint).observe(root, { attributeFilter: ["data-theme", "data-zone"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  addEventListener("hashchange", () => show(fromHash()));
})();
