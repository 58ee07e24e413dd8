// The script of the console: htmx with its extension for server-sent events, which ask for the element #live of a page again when #events
// hears that something has changed.
import "htmx.org/dist/htmx.esm.js";
import "htmx.org/dist/ext/hx-sse.js";

// Where events do not arrive, as behind a proxy that holds them back, the page is asked for from time to time. The server sends an event at
// least every 15 seconds.
const silence = 20_000;
const pause = 5_000;

addEventListener("DOMContentLoaded", () => {
  const events = document.getElementById("events");
  if (!events) return;
  let heard = Date.now();
  for (const name of ["changed", "beat"]) events.addEventListener(name, () => { heard = Date.now(); });
  setInterval(() => {
    if (!document.hidden && Date.now() - heard > silence) document.getElementById("refresh").dispatchEvent(new Event("stale"));
  }, pause);
});

// A form that acts is sent once. Its buttons are disabled after it was read, and for as long as an answer may take, so that none stays
// disabled on a page that was not left.
addEventListener("submit", ({ target }) => {
  if (target.method !== "post") return;
  const disable = (disabled) => { for (const button of target.querySelectorAll("button")) button.disabled = disabled; };
  setTimeout(disable, 0, true);
  setTimeout(disable, pause, false);
});
