// The script of the console: htmx with its extension for server-sent events, which ask for the element #live of a page again when #events
// hears that something has changed.
import "htmx.org/dist/htmx.esm.js";
import "htmx.org/dist/ext/hx-sse.js";

// Where events do not arrive, as behind a proxy that holds them back or after the browser has slept, the page is asked for from time to
// time, and the stream is opened again. The server sends an event at least every 15 seconds.
const silence = 20_000;
const pause = 5_000;

addEventListener("DOMContentLoaded", () => {
  const events = document.getElementById("events");
  if (!events) return;
  const refresh = document.getElementById("refresh");
  let stream, heard = Date.now(), opened = heard;
  let asked = false; // something was asked for, and is not answered yet
  // What #connection says: "lost", "login" or, if all is well, nothing.
  const say = (state) => {
    for (const line of document.getElementById("connection").children) line.hidden = line.dataset.state !== state;
  };
  for (const name of ["changed", "beat"]) events.addEventListener(name, () => { heard = Date.now(); });
  // A page that was opened in the background has no stream until it is looked at: a browser has six connections for all pages of a host.
  addEventListener("htmx:sse:before:connection", (event) => { if (document.hidden) event.preventDefault(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) events.dispatchEvent(new Event("again")); });
  addEventListener("htmx:sse:after:connection", ({ detail }) => {
    stream = detail.connection;
    opened = Date.now();
    asked = false;
    say();
  });
  addEventListener("htmx:sse:error", ({ detail }) => {
    if (detail.status === 401) say("login");
    else if (detail.connection?.attempt > 0) say("lost"); // the first attempt is made at once
  });
  addEventListener("htmx:error", ({ detail }) => {
    if (detail.ctx && !detail.ctx.response && detail.error?.name !== "AbortError") say("lost");
  });
  addEventListener("htmx:after:request", (event) => {
    const { sourceElement, response, text } = event.detail.ctx;
    // What lacks the element is no page of the console, but that of a proxy, say, or there is none without a login. It replaces nothing.
    const isOther = sourceElement === refresh && !text.includes('id="live"');
    if (isOther) event.preventDefault();
    asked = false;
    say(response.status === 401 ? "login" : isOther ? "lost" : undefined);
  });
  setInterval(() => {
    if (document.hidden || Date.now() - heard <= silence) return;
    if (asked) say("lost"); // for as long as a pause
    asked ||= !!refresh;
    if (Date.now() - opened > silence) {
      opened = Date.now();
      asked = true;
      stream?.reader?.cancel(); // it is opened again
    }
    events.dispatchEvent(new Event("again")); // if it is not open
    refresh?.dispatchEvent(new Event("stale"));
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
