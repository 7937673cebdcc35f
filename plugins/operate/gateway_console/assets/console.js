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

  // What was typed outlives a session that ended: this tab keeps it until its reader has logged in again.
  const KEPT = "tidegate-typed";
  const stash = (value) => {
    try { value ? sessionStorage.setItem(KEPT, value) : sessionStorage.removeItem(KEPT); } catch { /* private windows */ }
  };
  const stashed = () => { try { return sessionStorage.getItem(KEPT); } catch { return null; } };
  const typed = () => [...document.querySelectorAll("main textarea, main input, main select")].filter(
    (field) => field.name && !field.hidden && !["hidden", "password", "submit", "button"].includes(field.type));
  const keep = () => stash(JSON.stringify([location.pathname, typed().map((field) => [field.name, field.value])]));
  document.addEventListener("submit", (submit) => {
    if (submit.target.closest("[data-login]")) return;
    if (!submit.target.closest("main")) stash(""); // who logs out leaves nothing behind
    else if (!submit.defaultPrevented) keep();
  });
  document.addEventListener("htmx:beforeOnLoad", (load) => { if (load.detail.xhr.status === 401) keep(); });
  document.addEventListener("DOMContentLoaded", () => {
    if (document.querySelector("[data-login]")) return;
    const kept = stashed();
    stash("");
    if (!kept || !new URL(document.referrer || location.href).pathname.endsWith("/login")) return;
    const [path, values] = JSON.parse(kept);
    const fields = typed();
    if (path !== location.pathname || fields.length !== values.length) return;
    fields.forEach((field, i) => { if (field.name === values[i][0]) field.value = values[i][1]; });
  });

  let lost = false;
  const tell = (text, bad) => {
    const place = document.getElementById("connection");
    if (!place) return;
    place.textContent = text;
    place.classList.toggle("lost", bad);
  };
  const opened = (text) => {
    if (lost) tell("Reconnected at " + new Date().toLocaleTimeString(), false);
    else tell(text, false);
    lost = false;
  };
  const failed = () => {
    if (!lost) tell("Connection lost; reconnecting…", true);
    lost = true;
    // a session that has ended looks like a lost connection: ask
    fetch(location.href, { method: "HEAD", redirect: "manual" }).then((answer) => {
      if (answer.type !== "opaqueredirect") return;
      keep();
      location.reload();
    }, () => {});
  };
  document.addEventListener("htmx:sseOpen", () => opened("Live"));
  document.addEventListener("htmx:sseError", failed);
  // what a reader unfolded stays so when its part arrives again: <details id="…" data-keep>
  const folds = new Map();
  document.addEventListener("toggle", (toggle) => {
    if (toggle.target.matches("details[data-keep]") && toggle.target.isConnected) folds.set(toggle.target.id, toggle.target.open);
  }, true);
  document.addEventListener("htmx:sseMessage", (message) => {
    for (const details of message.target.querySelectorAll("details[data-keep]")) {
      if (folds.has(details.id)) details.open = folds.get(details.id);
    }
  });
  document.addEventListener("htmx:sendError", () => tell("No answer from the gateway", true));

  // A stream that closes while nobody sees its page: a browser has six connections for a host, and many tabs.
  class Stream {
    constructor(url, keeps) {
      this.url = url;
      this.ended = false;
      this.source = null;
      this.listeners = [["problem", (told) => { this.close(); tell(told.data, true); }]];
      this.seen = () => { if (document.hidden && !keeps) this.leave(); else this.enter(); };
      document.addEventListener("visibilitychange", this.seen);
      this.seen();
    }

    get readyState() {
      if (this.ended) return EventSource.CLOSED;
      return this.source ? this.source.readyState : EventSource.CONNECTING;
    }

    enter() {
      if (this.source || this.ended) return;
      const source = this.source = new EventSource(this.url);
      source.onopen = (opened) => this.onopen && this.onopen(opened);
      source.onerror = (failed) => {
        if (source.readyState === EventSource.CLOSED) this.close(); // htmx makes another one
        if (this.onerror) this.onerror(failed);
      };
      for (const [name, listener] of this.listeners) source.addEventListener(name, listener);
    }

    leave() {
      if (this.source) this.source.close();
      this.source = null;
    }

    close() {
      this.ended = true;
      this.leave();
      document.removeEventListener("visibilitychange", this.seen);
    }

    addEventListener(name, listener) {
      this.listeners.push([name, listener]);
      if (this.source) this.source.addEventListener(name, listener);
    }

    removeEventListener(name, listener) {
      this.listeners = this.listeners.filter((each) => each[0] !== name || each[1] !== listener);
      if (this.source) this.source.removeEventListener(name, listener);
    }
  }
  document.addEventListener("DOMContentLoaded", () => {
    if (!window.htmx) return;
    htmx.createEventSource = (url) => {
      const places = [...document.querySelectorAll("[sse-connect]")];
      return new Stream(url, places.some((each) => each.getAttribute("sse-connect") === url && "keep" in each.dataset));
    };
  });

  // a page without live parts only says whether the gateway is there
  const AGAIN_MS = 2000;
  const present = (url) => {
    const stream = new Stream(url, false);
    stream.onopen = () => opened("Connected");
    stream.onerror = () => {
      failed();
      if (stream.readyState === EventSource.CLOSED) setTimeout(present, AGAIN_MS, url);
    };
  };
  document.addEventListener("DOMContentLoaded", () => {
    const place = document.querySelector("#connection[data-present]");
    if (place && !document.querySelector("[sse-connect]")) present(place.dataset.present);
  });

  // A part that is renewed while its reader has something of it in hand waits for that: a pressed button, a field,
  // selected text. Otherwise it keeps the focus, what was opened and how far it was scrolled.
  let pressed = null;
  const waiting = new Map();
  const busy = (part) => {
    const active = document.activeElement;
    const chosen = getSelection();
    return (pressed && part.contains(pressed)) ||
      (part.contains(active) && active.matches("input:not([type=button]):not([type=submit]), select, textarea")) ||
      (chosen && !chosen.isCollapsed && chosen.containsNode(part, true));
  };
  const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";
  const nameOf = (found) => found.id || found.getAttribute("href") || found.getAttribute("name") ||
    found.getAttribute("aria-label") || found.textContent.trim();
  const like = (part, found) => [...part.querySelectorAll(FOCUSABLE)].filter(
    (each) => each.tagName === found.tagName && nameOf(each) === nameOf(found));
  const renew = (part, change) => {
    const active = part !== document.activeElement && part.contains(document.activeElement) && document.activeElement;
    const place = active ? like(part, active).indexOf(active) : -1;
    const open = [...part.querySelectorAll("details[open] > summary")];
    const scrolled = [...part.querySelectorAll("*")].filter((each) => each.scrollTop || each.scrollLeft)
      .map((each) => [each, like(part, each).indexOf(each), each.scrollTop, each.scrollLeft]);
    change();
    for (const summary of open) for (const same of like(part, summary)) same.parentElement.open = true;
    for (const [before, index, top, left] of scrolled) {
      const same = index < 0 ? null : like(part, before)[index];
      if (same) { same.scrollTop = top; same.scrollLeft = left; }
    }
    if (active) {
      const same = like(part, active);
      const next = same[place] || same[0];
      if (next) next.focus({ preventScroll: true });
    }
  };
  const show = (part, html) => {
    renew(part, () => htmx.swap(part, html, { swapStyle: "innerHTML", swapDelay: 0, settleDelay: 0 }));
    htmx.trigger(part, "htmx:sseMessage", { data: html });
  };
  const catchUp = () => {
    for (const [part, html] of waiting) {
      if (busy(part)) continue;
      waiting.delete(part);
      if (part.isConnected) show(part, html);
    }
  };
  document.addEventListener("pointerdown", (down) => { pressed = down.target; });
  const released = () => { pressed = null; setTimeout(catchUp); };
  for (const name of ["pointerup", "pointercancel", "dragend"]) document.addEventListener(name, released);
  addEventListener("blur", released);
  document.addEventListener("selectionchange", () => { if (waiting.size) setTimeout(catchUp); });
  document.addEventListener("focusout", () => { if (waiting.size) setTimeout(catchUp); });
  document.addEventListener("htmx:sseBeforeMessage", (message) => {
    const part = message.target;
    if (message.defaultPrevented || ["data-paused", "data-figures"].some((name) => part.hasAttribute(name))) return;
    if (part.dataset.most || part.hasAttribute("hx-swap")) return; // rows are added, nothing is replaced
    message.preventDefault();
    if (busy(part)) { waiting.set(part, message.detail.data); return; }
    waiting.delete(part);
    show(part, message.detail.data);
  });

  // rows that come live: paused ones are left out, and the oldest go
  document.addEventListener("click", (click) => {
    const button = click.target.closest("[data-pause]");
    if (!button) return;
    const paused = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Continue" : "Pause";
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
    fresh("data-live", now, (element, text, kind) => {
      if (element.textContent !== text) element.textContent = text;
      paintKind(element, kind);
    });
    fresh("data-live-kind", now, (element, text, kind) => paintKind(element, kind));
    fresh("data-live-label", now, (element, text) => element.setAttribute("aria-label", text));
    if (now.shape && now.shape !== place.dataset.figures) { // another config: the drawing is made again
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
