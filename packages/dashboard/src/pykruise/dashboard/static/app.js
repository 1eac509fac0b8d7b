// The page: it finds the user and the page of the address, receives the rows live, and draws them.
// address ──▶ page ──▶ Live (rows) ──▶ view(live) (a value) ──▶ patch()      All state is in the address.

import { h, patch } from "./dom.js";
import { health, pods } from "./lists.js";
import { Live, ask } from "./net.js";
import { node } from "./node.js";
import { jobs, others, rollouts } from "./overview.js";
import { absent, address, dialog, onFold, tick } from "./parts.js";
import { clean } from "./words.js";
import { workload } from "./workload.js";

const PAGES = { rollouts, pods, jobs, others, health, workload, node };
const TITLES = [
  ["rollouts", "Rollouts"],
  ["pods", "Pods that wait"],
  ["jobs", "Jobs and images"],
  ["others", "Other objects"],
  ["health", "Health"],
];
const FIRST = 10; // rows at the first drawing, which also draws the rest of the page
const STEP = 25; // ... and more at each turn
const CHANGES = 150; // rows and squares that one turn makes or changes
const SAID_MS = 5_000;

const top = document.getElementById("top");
const main = document.getElementById("main");
const spoken = document.getElementById("live");

let session = null;
let live = null;
let liveOf = "";
let drawn = FIRST;
let isWaiting = false;
let said = "";
let saidAt = 0;

const query = () => new URLSearchParams(location.search);
const page = () => (PAGES[query().get("page")] ? query().get("page") : "rollouts");

/** Query for the server. The browser applies the filters. */
function asked() {
  const now = query();
  const found = { page: page() };
  if (found.page === "workload") for (const key of ["kind", "namespace", "name"]) found[key] = now.get(key) || "";
  if (found.page === "node") found.name = now.get("name") || "";
  return found;
}

function go(values, { replace = false } = {}) {
  const to = address(values, query());
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  look();
}

function look() {
  const wanted = JSON.stringify(asked());
  if (wanted !== liveOf) {
    if (live) live.close();
    liveOf = wanted;
    drawn = FIRST;
    live = new Live(asked(), { changed: redraw, lost: () => logIn("Your login has expired.") });
  }
  redraw();
}

function redraw() {
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => {
    isWaiting = false;
    draw();
  });
}

function draw() {
  if (!session || !live) return;
  const around = { query: query(), go, session, drawn, redraw };
  const found = PAGES[page()](live, around);
  patch(top, header());
  const before = document.activeElement;
  const focused = before && before.classList.contains("main-link") ? before.getAttribute("href") : "";
  const elements = [
    h(
      "div",
      { key: "title", class: "title" },
      h("h1", null, found.chip ? [found.chip, " "] : null, found.heading || found.title),
      found.tools ? h("div", { class: "tools actions" }, found.tools) : null,
    ),
    found.summary ? h("p", { key: "summary", class: `headline ${(live.isSynced && found.headline) || ""}` }, h("b", null, absent(live, found.summary))) : null,
    ...notes(),
    h("div", { key: `page-${liveOf}` }, found.body),
  ];
  const isWhole = patch(main, elements, CHANGES);
  // An object that moves from the rows to the cards gets another element: move the focus to it.
  if (focused && !before.isConnected) {
    const moved = [...main.querySelectorAll("a.main-link")].find((link) => link.getAttribute("href") === focused);
    if (moved) moved.focus({ preventScroll: true });
  }
  document.body.classList.toggle("wall", around.query.get("wall") === "1");
  document.title = `${found.count ? `(${found.count}) ` : ""}${found.title} – ${session.cluster}`;
  badge(found.count > 0);
  say(found.spoken || found.summary);
  if (found.left > 0) drawn += STEP;
  if (found.left > 0 || !isWhole) setTimeout(redraw, 0);
}

/** Set the icon of the tab: it shows whether an object needs action. */
function badge(isAlert) {
  const icon = document.getElementById("icon");
  const wanted = isAlert ? icon.dataset.alert : icon.dataset.calm;
  if (icon.getAttribute("href") !== wanted) icon.setAttribute("href", wanted);
}

function notes() {
  const found = [];
  if (!live.isConnected && live.isSynced) found.push("The connection is lost. The page shows the last known state and reconnects …");
  if (live.refusal) found.push(`The server does not send this page: ${live.refusal}.`);
  if (live.hasStatus && !live.status.is_read) found.push("The cluster is still being read.");
  for (const one of live.status.problems || []) found.push(one);
  return found.map((text, number) => h("p", { key: `note-${number}`, class: "note", role: "status" }, clean(text, 500)));
}

/** Announce to screen readers: only the summary, and not too often. */
function say(text) {
  if (text === said || Date.now() - saidAt < SAID_MS || !live.isSynced) return;
  said = text;
  saidAt = Date.now();
  spoken.textContent = text;
}

function header() {
  const here = page();
  return [
    h(
      "nav",
      { "aria-label": "Pages" },
      h("span", { class: "brand" }, "pykruise"),
      TITLES.map(([key, title]) => h("a", { key, href: address({ page: key }), "aria-current": key === here ? "page" : false }, title)),
    ),
    h(
      "div",
      { class: "who" },
      h("span", { class: "cluster" }, clean(session.cluster), session.namespace ? `, namespace ${clean(session.namespace)}` : ""),
      h("span", null, clean(session.user)),
      h("span", { class: "fresh" }, freshness()),
      ["workload", "node", "health"].includes(page()) ? null : h("a", { href: address({ wall: "1" }, query()) }, "Wall"),
      h("button", { class: "by-keyboard", type: "button", onclick: help, "aria-keyshortcuts": "?" }, "Keys"),
      h("button", { type: "button", onclick: turn }, `Colours: ${theme() || "system"}`),
      session.mode === "cluster" ? h("button", { type: "button", onclick: logOut }, "Log out") : null,
    ),
  ];
}

/** Age of the displayed data. */
function freshness() {
  if (!live || !live.heard) return "";
  const seconds = Math.round((Date.now() - live.heard) / 1000);
  return live.isConnected && seconds < 20 ? "live" : `${seconds} s old`;
}

// ── keys ─────────────────────────────────────────────────────────────────────

const KEYS = [
  ["j, k", "go to the next or the previous object"],
  ["Enter", "open the object"],
  ["/", "find"],
  ["w", "switch wall mode on or off"],
  ["u", "go from an object back to the list"],
  ["?", "show these keys"],
  ["Esc", "close a dialog, or end wall mode"],
];

function help() {
  dialog("Keys", (node) =>
    patch(node, [
      h("h2", null, "Keys"),
      h("div", { class: "keys" }, KEYS.map(([key, what]) => [h("kbd", null, key), h("span", null, what)])),
      h("button", { type: "button", onclick: () => node.close() }, "Close"),
    ]),
  );
}

function step(by) {
  const links = [...document.querySelectorAll("main a.main-link")].filter((link) => link.offsetParent !== null);
  if (!links.length) return;
  const place = links.indexOf(document.activeElement);
  const next = links[place < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(place + by, 0), links.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

const DO = {
  j: () => step(1),
  k: () => step(-1),
  "?": help,
  w: () => go({ wall: query().get("wall") ? "" : "1" }),
  u: () => ["workload", "node"].includes(page()) && history.back(),
  "/": () => {
    const find = document.getElementById("find");
    if (find) find.focus();
  },
};

// ── colours ──────────────────────────────────────────────────────────────────

const THEMES = ["", "light", "dark"];
const theme = () => localStorage.getItem("theme") || "";

function turn() {
  localStorage.setItem("theme", THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]);
  paint();
  redraw();
}

function paint() {
  if (theme()) document.documentElement.dataset.theme = theme();
  else delete document.documentElement.dataset.theme;
}

// ── login ────────────────────────────────────────────────────────────────────

async function logOut() {
  await ask("logout", {});
  logIn("You are logged out.");
}

function logIn(why) {
  session = null;
  if (live) live.close();
  live = null;
  liveOf = "";
  patch(top, [h("nav", { "aria-label": "Pages" }, h("span", { class: "brand" }, "pykruise"))]);
  const submit = async (event) => {
    event.preventDefault();
    const field = event.currentTarget.querySelector("input");
    const token = field.value;
    field.value = "";
    try {
      await ask("login", { token });
      await begin();
    } catch (error) {
      logIn(error.message);
      field.focus();
    }
  };
  patch(main, [
    h("h1", { key: "title" }, "Log in"),
    h("p", { key: "why", role: "alert" }, clean(why, 500)),
    h(
      "form",
      { key: "login", class: "box login", onsubmit: submit },
      h("label", null, "Token", h("input", { type: "password", name: "token", autocomplete: "off", required: true })),
      h("button", { type: "submit" }, "Log in"),
    ),
    h("p", { key: "how" }, "On your own machine, open the link that ", h("code", null, "pykruise dashboard"), " prints. In a cluster, enter your bearer token. For a service account, ", h("code", null, "kubectl create token NAME"), " prints one."),
  ]);
  document.title = "Log in – pykruise";
}

async function begin() {
  try {
    session = await ask("session");
  } catch (error) {
    logIn(error.status === 401 ? "You are not logged in." : error.message);
    return;
  }
  patch(main, []);
  look();
}

async function start() {
  paint();
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", location.pathname + location.search);
    try {
      await ask("login", { token });
    } catch (error) {
      try {
        session = await ask("session"); // an old link, in a browser that is logged in
      } catch {
        logIn(error.message);
        return;
      }
    }
  }
  await begin();
}

document.addEventListener("click", (event) => {
  const found = event.target.closest && event.target.closest('a[href^="?"]');
  if (!found || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const before = page();
  history.pushState(null, "", found.getAttribute("href"));
  look();
  if (page() !== before) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && query().get("wall")) go({ wall: "" });
  if (event.ctrlKey || event.metaKey || event.altKey || !session || document.querySelector("dialog[open]")) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || !DO[event.key]) return;
  event.preventDefault();
  DO[event.key]();
});
addEventListener("popstate", look);
onFold(redraw);
setInterval(() => {
  tick();
  const fresh = document.querySelector(".fresh");
  if (fresh && fresh.textContent !== freshness()) redraw();
}, 5_000);
start();
