// What pages need beyond htmx: the theme, the state of the live connection, copying, and the login page's way back.
// It runs before the page is drawn, so that a dark page is never white first.
"use strict";

(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("tidegate-theme"); } catch { return null; } };
  const paint = () => { root.dataset.theme = stored() || (dark.matches ? "dark" : "light"); };
  paint();
  dark.addEventListener("change", paint);

  document.addEventListener("click", (click) => {
    if (click.target.closest("[data-theme-switch]")) {
      const next = root.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem("tidegate-theme", next); } catch { /* private windows */ }
      root.dataset.theme = next;
    }
    const copy = click.target.closest("[data-copy]");
    if (copy) {
      const text = document.getElementById(copy.dataset.copy).textContent;
      navigator.clipboard.writeText(text).then(() => {
        const before = copy.textContent;
        copy.textContent = "Copied";
        setTimeout(() => { copy.textContent = before; }, 1500);
      });
    }
  });

  // a form that asks first: <button data-confirm="…">
  document.addEventListener("submit", (submit) => {
    const text = submit.submitter && submit.submitter.dataset.confirm;
    if (text && !confirm(text)) submit.preventDefault();
  });

  let lost = false;
  const tell = (text, bad) => {
    const place = document.getElementById("connection");
    if (!place) return;
    place.textContent = text;
    place.classList.toggle("lost", bad);
  };
  document.addEventListener("htmx:sseOpen", () => {
    if (lost) tell("Reconnected at " + new Date().toLocaleTimeString(), false);
    else tell("Live", false);
    lost = false;
  });
  document.addEventListener("htmx:sseError", () => {
    if (!lost) tell("Connection lost; reconnecting…", true);
    lost = true;
    // a session that ended looks like a lost connection: ask
    fetch(location.href, { method: "HEAD", redirect: "manual" }).then((answer) => {
      if (answer.type === "opaqueredirect") location.reload();
    }, () => {});
  });
  document.addEventListener("htmx:sendError", () => tell("No answer from the gateway", true));

  // rows that come live: paused ones are left out, and the oldest go
  document.addEventListener("click", (click) => {
    const button = click.target.closest("[data-pause]");
    if (!button) return;
    const paused = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Go on" : "Pause";
    document.getElementById(button.dataset.pause).toggleAttribute("data-paused", paused);
  });
  document.addEventListener("htmx:sseBeforeMessage", (message) => {
    if (message.target.hasAttribute("data-paused")) message.preventDefault();
  });
  document.addEventListener("htmx:sseMessage", (message) => {
    const rows = message.target;
    if (!rows.dataset || !rows.dataset.most) return;
    while (rows.children.length > Number(rows.dataset.most)) rows.lastElementChild.remove();
    const empty = document.querySelector(`[data-empty-of="${rows.id}"]`);
    if (empty) empty.hidden = rows.children.length > 0;
  });

  // numbers and states that change in place: <… data-live="KEY">, its class alone (data-live-kind), its label
  const kinds = ["good", "warn", "bad", "on"];
  const paintKind = (element, kind) => {
    for (const each of kinds) element.classList.toggle(each, each === kind);
  };
  const fresh = (attribute, figures, change) => {
    for (const element of document.querySelectorAll(`[${attribute}]`)) {
      const found = figures[element.getAttribute(attribute)];
      if (found) change(element, found[0], found[1]);
    }
  };
  document.addEventListener("htmx:sseBeforeMessage", (message) => {
    const place = message.target;
    if (!place.hasAttribute("data-figures")) return;
    message.preventDefault();
    const now = JSON.parse(message.detail.data);
    fresh("data-live", now.figures, (element, text, kind) => {
      if (element.textContent !== text) element.textContent = text;
      paintKind(element, kind);
    });
    fresh("data-live-kind", now.figures, (element, text, kind) => paintKind(element, kind));
    fresh("data-live-label", now.figures, (element, text) => element.setAttribute("aria-label", text));
    if (now.shape !== place.dataset.figures) { // another config: the drawing is made anew
      place.dataset.figures = now.shape;
      htmx.ajax("GET", location.href, { target: "#drawn", select: "#drawn", swap: "outerHTML" });
    }
  });

  // Who follows a link from another site comes without the cookie (SameSite=Strict), although the session holds.
  document.addEventListener("DOMContentLoaded", () => {
    const login = document.querySelector("[data-login]");
    if (!login || document.querySelector("[role=alert]")) return;
    fetch(login.dataset.next, { method: "HEAD", redirect: "manual" }).then((answer) => {
      if (answer.ok) location.replace(login.dataset.next);
    }, () => {});
  });
})();
