// What several pages have: links that keep the state in the address, tables, ages, states, commands to copy.

import { h } from "./dom.js";
import { age, clean, count } from "./words.js";

/** The address with other values; an empty one goes. */
export function address(values, from = new URLSearchParams()) {
  const query = new URLSearchParams(from);
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === null || value === undefined) query.delete(name);
    else query.set(name, value);
  }
  return `?${query}`;
}

export const link = (values, ...children) => h("a", { href: address({ ...values }) }, ...children);

export const workloadLink = (row, ...children) =>
  link({ page: "workload", kind: row.resource, namespace: row.namespace, name: row.name }, ...children);

const STATES = {
  person: ["▲", "needs action"],
  moves: ["●", "moves"],
  still: ["○", "still"],
};

/** Icon and word: colour says nothing alone. */
export function state(kind, word) {
  const [icon, text] = STATES[kind] || ["○", kind];
  return h("span", { class: `state ${kind}` }, h("span", { "aria-hidden": "true" }, icon), ` ${clean(word || text)}`);
}

export const when = (time) => (time ? h("time", { datetime: time, title: clean(time) }, age(time)) : null);

/** Texts of ages grow older without a new look at the page. */
export function tick() {
  for (const one of document.querySelectorAll("time")) {
    const text = age(one.dateTime);
    if (one.firstChild && one.firstChild.data !== text) one.firstChild.data = text;
  }
}

export const name = (text) => h("bdi", null, clean(text));

/** A bar of pods: updated, ready, and where the partition stops. The text says the same. */
export function progress(row) {
  const all = Math.max(row.desired || 0, row.updated || 0, 1);
  const part = (value) => Math.round((100 * Math.min(value || 0, all)) / all);
  const stop = 100 - part(row.kept);
  const said = `${row.updated || 0} of ${row.desired || 0} updated, ${row.ready || 0} ready`;
  const kept = row.kept ? `, ${row.kept} kept by the partition` : "";
  return h(
    "div",
    { class: "progress" },
    h(
      "svg",
      { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      h("rect", { class: "all", width: "100", height: "10" }),
      h("rect", { class: "updated", width: String(part(row.updated)), height: "6" }),
      h("rect", { class: "ready", width: String(part(row.ready)), height: "4", y: "6" }),
      row.kept ? h("line", { class: "mark", x1: String(stop), x2: String(stop), y1: "0", y2: "10" }) : null,
    ),
    h("span", null, said + kept),
  );
}

/** A table with a caption; columns: [title, class, sort key or nothing]. sort: {by, down, to(key)}. */
export function table(caption, columns, rows, { sort, hidden = false } = {}) {
  const head = columns.map(([title, kind, key]) => {
    if (!sort || !key) return h("th", { scope: "col", class: kind }, title);
    const is = sort.by === key;
    return h(
      "th",
      { scope: "col", class: kind, "aria-sort": is ? (sort.down ? "descending" : "ascending") : false },
      h("button", { type: "button", onclick: () => sort.to(key) }, title, is ? (sort.down ? " ▼" : " ▲") : ""),
    );
  });
  return h(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      null,
      h("caption", { class: hidden ? "unseen" : false }, caption),
      h("thead", null, h("tr", null, head)),
      h("tbody", null, rows),
    ),
  );
}

/** A command, with a button that copies it. */
export function command(text) {
  const copy = async (event) => {
    const button = event.currentTarget;
    const code = button.previousSibling;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected: copy it";
    }
    setTimeout(() => (button.textContent = "Copy"), 2_000);
  };
  return h(
    "div",
    { class: "command" },
    h("code", null, clean(text, 2_000)),
    h("button", { type: "button", onclick: copy, "aria-label": `Copy: ${clean(text)}` }, "Copy"),
  );
}

const SIZE = 100; // rows of one page

/** The rows of the page that the address names, and links to the others. What is drawn at first is less. */
export function paged(rows, { query, drawn }) {
  const from = Math.min(Math.max(Number(query.get("from")) || 0, 0), Math.max(rows.length - 1, 0));
  const begin = from - (from % SIZE);
  const end = Math.min(begin + SIZE, rows.length);
  const to = (place, title) => h("a", { href: address({ from: place || "" }, query) }, title);
  const links =
    rows.length > SIZE
      ? h(
          "nav",
          { class: "chips", "aria-label": "Rows" },
          `Rows ${count(begin + 1)} to ${count(end)} of ${count(rows.length)}`,
          begin > 0 ? to(begin - SIZE, "Previous") : null,
          end < rows.length ? to(end, "Next") : null,
        )
      : null;
  const shown = rows.slice(begin, Math.min(end, begin + drawn));
  return { shown, links, left: end - begin - shown.length };
}
