// Keeps the page current: asks for its parts every few seconds and swaps those that changed. Links,
// tables and plots work without it.
"use strict";

const EVERY_MS = 2000;
const TIMEOUT_MS = 10000;

const connection = document.getElementById("connection");
// What each part looked like as it came, before a reader opened or scrolled anything in it.
const known = new Map();
let asked = location.search;
let timer;
let busy = false;

for (const part of document.querySelectorAll("[data-part]")) {
  known.set(part.dataset.part, part.outerHTML);
}

function say(state, text) {
  if (connection.dataset.state !== state) {
    connection.dataset.state = state;
    connection.textContent = text;
  }
}

// Tells an element from others like it, also in the part that replaces it.
function nameOf(element) {
  const text = element.getAttribute("href") ?? element.querySelector("caption")?.textContent ?? element.textContent;
  return `${element.tagName} ${text}`;
}

function find(root, selector, name) {
  return [...root.querySelectorAll(selector)].find((element) => nameOf(element) === name);
}

const FOCUSABLE = "a, summary, [tabindex]";
const SCROLLING = "nav ul, .scroll";

// Puts a fresh part in the place of an old one; what was open, focused and scrolled stays so.
function swap(old, fresh) {
  const opened = [...old.querySelectorAll("details[open] > summary")].map(nameOf);
  const focused = old.contains(document.activeElement) ? nameOf(document.activeElement) : undefined;
  const scrolled = [...old.querySelectorAll(SCROLLING)].map((element) => [element.scrollLeft, element.scrollTop]);
  const before = window.scrollY;
  old.replaceWith(fresh);
  for (const name of opened) {
    find(fresh, "summary", name)?.parentElement.setAttribute("open", "");
  }
  fresh.querySelectorAll(SCROLLING).forEach((element, index) => {
    [element.scrollLeft, element.scrollTop] = scrolled[index] ?? [0, 0];
  });
  if (focused !== undefined) {
    find(fresh, FOCUSABLE, focused)?.focus({ preventScroll: true });
  }
  if (window.scrollY !== before) {
    window.scrollTo(window.scrollX, before);
  }
}

// Whether a reader is copying something out of it.
function isSelectedIn(part) {
  const selection = document.getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(part, true);
}

function apply(html) {
  const fetched = new DOMParser().parseFromString(html, "text/html");
  for (const fresh of fetched.querySelectorAll("[data-part]")) {
    const name = fresh.dataset.part;
    const old = document.querySelector(`[data-part="${CSS.escape(name)}"]`);
    const html = fresh.outerHTML;
    if (old !== null && known.get(name) !== html && !isSelectedIn(old)) {
      swap(old, document.adoptNode(fresh));
      known.set(name, html);
    }
  }
}

async function ask(path, headers) {
  const options = { headers, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) };
  const answer = await fetch(path + asked, options);
  if (answer.status === 304) {
    return;
  }
  if (!answer.ok) {
    throw new Error(`${path}: ${answer.status}`);
  }
  apply(await answer.text());
}

async function update() {
  if (busy) {
    return;
  }
  busy = true;
  clearTimeout(timer);
  const section = document.querySelector('[data-part="section"]');
  if (section.dataset.query !== undefined) {
    asked = `?${section.dataset.query}`;
    document.title = section.dataset.title;
  }
  try {
    await ask("/live/section", { "If-None-Match": section.dataset.tag });
    await ask("/live/status", {});
    say("live", "Live: this page updates by itself.");
  } catch {
    const since = new Date().toLocaleTimeString();
    say("away", `Not reachable since ${since}: what is shown is what was known then. Trying again.`);
  }
  busy = false;
  timer = setTimeout(() => document.hidden || update(), EVERY_MS);
}

document.addEventListener("visibilitychange", () => document.hidden || update());
update();
