// Runs before the first paint: the chosen theme and time zone, so that nothing flashes.
(() => {
  "use strict";
  const read = (name) => {
    try {
      return localStorage.getItem("pdctl." + name);
    } catch {
      return null; // storage may be switched off; the choice then lasts for one page
    }
  };
  const theme = read("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  document.documentElement.dataset.zone = read("zone") === "local" ? "local" : "utc";
})();
