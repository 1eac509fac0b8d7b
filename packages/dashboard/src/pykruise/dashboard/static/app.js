// The page: who one is, which page the address names, its rows live, and drawing them.
// address ──▶ page ──▶ Live (rows) ──▶ view(live) (a value) ──▶ patch()      All state is in the address.

import { h, patch } from "./dom.js";
import { health, jobs, others, pods, rollouts } from "./lists.js";
import { Live, ask } from "./net.js";
import { address, tick } from "./parts.js";
import { clean } from "./words.js";
import { workload } from "./workload.js";

const PAGES = { rollouts, pods, jobs, others, health, workload };
const TITLES = [
  ["rollouts", "Rollouts"],
  ["pods", "Pods that wait"],
  ["jobs", "Jobs and images"],
  ["others", "Other objects"],
  ["health", "Health"],
];
const FIRST = 25; // rows at the first drawing
const STEP = 25; // ... and more at each turn
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

/** What the server is asked: filters are the browser's own business. */
function asked() {
  const now = query();
  const found = { page: page() };
  if (found.page === "workload") for (const key of ["kind", "namespace", "name"]) found[key] = now.get(key) || "";
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
    live = new Live(asked(), { changed: redraw, lost: () => logIn("Your login is over.") });
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
  patch(main, [
    h("h1", { key: "title" }, found.title),
    h("p", { key: "summary", class: "summary" }, live.isSynced || live.rows.size ? found.summary : "Loading …"),
    ...notes(),
    h("div", { key: `page-${liveOf}` }, found.body),
  ]);
  document.title = `${found.title}: ${found.summary} – pykruise`;
  say(found.summary);
  if (found.left > 0) {
    drawn += STEP;
    setTimeout(redraw, 0);
  }
}

function notes() {
  const found = [];
  if (!live.isConnected && live.isSynced) found.push("The connection is lost; this is how it was. Trying again …");
  if (!live.status.is_read && live.isSynced) found.push("The cluster is still being read.");
  for (const one of live.status.problems || []) found.push(one);
  return found.map((text, number) => h("p", { key: `note-${number}`, class: "note", role: "status" }, clean(text, 500)));
}

/** For those who hear the page: the summary alone, and not more often than one can listen to. */
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
      h("button", { type: "button", onclick: turn }, `Colours: ${theme() || "system"}`),
      session.mode === "cluster" ? h("button", { type: "button", onclick: logOut }, "Log out") : null,
    ),
  ];
}

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
    h("p", { key: "how" }, "On your own machine: the link that ", h("code", null, "pykruise dashboard"), " prints. In a cluster: your bearer token, such as ", h("code", null, "kubectl create token NAME"), " gives for a service account."),
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
  if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const find = document.getElementById("find");
  if (find) {
    event.preventDefault();
    find.focus();
  }
});
addEventListener("popstate", look);
setInterval(tick, 5_000);
start();
