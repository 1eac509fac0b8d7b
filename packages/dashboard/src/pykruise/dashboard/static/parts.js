// Parts of several pages: links that keep the state in the address, chips, ages, bars, commands to copy.

import { h } from "./dom.js";
import { LOADING, age, clean, count, pieces } from "./words.js";

/** The address with other values. Empty values are removed. */
export function address(values, from = new URLSearchParams()) {
  const query = new URLSearchParams(from);
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === null || value === undefined) query.delete(name);
    else query.set(name, value);
  }
  return `?${query}`;
}

export const link = (values, ...children) => h("a", { href: address({ ...values }) }, ...children);

const toObject = (row) => address({ page: "workload", kind: row.resource, namespace: row.namespace, name: row.name });

/** The link of a card or row. The keys j and k move between these links. */
export const workloadLink = (row, ...children) => h("a", { class: "main-link", href: toObject(row) }, ...children);

/** A link to another object than the one of the card or row. */
export const objectLink = (row, ...children) => h("a", { href: toObject(row) }, ...children);

/** A node, with a link to its page. */
export const nodeLink = (node, ...children) => h("a", { href: address({ page: "node", name: node }) }, ...(children.length ? children : [name(node)]));

/** The verdicts in display order. The server decides the verdict of an object. */
export const PHASES = ["Failed", "Degraded", "Progressing", "Paused", "Healthy", "Completed"];
const ICONS = { Failed: "✖", Degraded: "▲", Progressing: "●", Paused: "Ⅱ", Healthy: "✔", Completed: "■" };

/** Icon and word of a verdict: the colour alone must carry no meaning. */
export const chip = (phase) => h("span", { class: `chip ${phase}` }, icon(phase), h("span", null, clean(phase || "unknown")));
export const icon = (phase) => h("span", { class: "icon", "aria-hidden": "true" }, ICONS[phase] || "?");
export const iconText = (phase) => ICONS[phase] || "?";

/** The text for a missing object. While the page is loading, it is unknown whether the object is missing. */
export const absent = (live, text) => (live.isSynced || live.refusal ? text : LOADING);

/** The state of a pod as the server names it, and the verdict whose colour and icon it has; in display order. */
export const PHASE_OF_LOOK = { failing: "Degraded", starting: "Progressing", leaving: "Paused", ready: "Healthy", ended: "Completed" };
const LOOKS = Object.keys(PHASE_OF_LOOK);
export const byLook = (a, b) => LOOKS.indexOf(a.look) - LOOKS.indexOf(b.look);

/** The state of an image on a node, and the verdict whose colour and icon it has. */
export const PHASE_OF_IMAGE = { Succeeded: "Healthy", Failed: "Failed", Pulling: "Progressing" };

/** A chip with the colour and icon of a verdict, and another word. */
export const chipOf = (phase, text) => h("span", { class: `chip ${phase}` }, icon(phase), broken(text));

const phone = matchMedia("(max-width: 40rem)");

/** Controls that a phone folds away, so that it shows the causes first. Wider screens always show them. */
export const foldedOnPhone = (key, title, ...children) => h("details", { key, class: "fold", open: !phone.matches }, h("summary", null, title), children);

/** Call `changed` when the window becomes as narrow as a phone, and when it becomes wider again. */
export const onFold = (changed) => phone.addEventListener("change", changed);

export const when = (time) => (time ? h("time", { datetime: time, title: clean(time) }, age(time)) : null);

/** Update the texts of ages without drawing the page again. */
export function tick() {
  for (const one of document.querySelectorAll("time")) {
    const text = age(one.dateTime);
    if (one.firstChild && one.firstChild.data !== text) one.firstChild.data = text;
  }
}

/** A name, an image or a code, which may break between its parts and not within a word. */
export const name = (text, most) => h("bdi", null, parted(text, most));
export const broken = (text, most) => h("span", { class: "w" }, parted(text, most));

/** Lines as a command prints them, which keep their spaces and break as broken() does. */
export const printed = (lines) => h("pre", null, lines.map((text) => [parted(text, 2_000), "\n"]));

/** The code of a reason, before its text. */
export const coded = (code) => [h("b", null, broken(`${code}:`)), " "];
function parted(text, most) {
  const found = [];
  for (const part of pieces(clean(text, most))) found.push(found.length ? h("wbr") : null, part);
  return found;
}

/** Whether the row has counts: objects that only select pods have none. */
export const hasProgress = (row) => row.begun !== undefined || row.desired !== undefined || row.updated !== undefined;

/** A bar of pods: updated, ready, and where the partition stops. The text names the same numbers. */
export function progress(row) {
  if (row.begun !== undefined) return done(row);
  if (!hasProgress(row)) return h("div", { class: "progress" });
  const all = Math.max(row.desired || 0, row.updated || 0, 1);
  const part = (value) => Math.round((100 * Math.min(value || 0, all)) / all);
  const stop = 100 - part(row.kept);
  const said = row.desired ? `${row.updated || 0} of ${row.desired} updated, ${row.ready || 0} ready` : `no pods wanted${row.updated ? `, ${row.updated} left` : ""}`;
  const kept = row.kept ? `, ${row.kept} kept by the partition` : "";
  return h(
    "div",
    { class: "progress" },
    h(
      "svg",
      { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      h("rect", { class: "all", width: "100", height: "10" }),
      h("rect", { class: "updated", width: String(part(row.updated)), height: "5" }),
      h("rect", { class: "ready", width: String(part(row.ready)), height: "5", y: "5" }),
      row.kept ? h("line", { class: "mark", x1: String(stop), x2: String(stop), y1: "0", y2: "10" }) : null,
    ),
    h("span", null, said + kept),
  );
}

function done(row) {
  const finished = row.succeeded || 0;
  const parts = [];
  if (row.schedule !== undefined) parts.push(clean(row.schedule));
  else parts.push(row.desired && finished <= row.desired ? `${finished} of ${row.desired} done` : `${finished} done`);
  if (row.active) parts.push(`${row.active} active`);
  if (row.failed) parts.push(`${row.failed} failed`);
  return h("div", { class: "progress" }, h("span", null, parts.join(", ")));
}

/** A command or a sentence. A line breaks between words, but not at the hyphens of a word that fits on a line, and not
 *  between a flag and its value. A long path of fields also breaks at its dots. */
export function words(text) {
  const found = [];
  let plain = "";
  for (const word of text.match(/(?<!\S)--?\w[\w-]* (?!-)\S+|\S+/g) || []) {
    if (!IN_PARTS.test(word)) plain += `${word} `;
    else {
      found.push(plain, h("span", { class: word.length > LONG_WORD ? "" : "w" }, parted(word, 2_000)));
      plain = " ";
    }
  }
  return [...found, plain];
}
const IN_PARTS = /[-/]|[:@_.]\w|[a-z][A-Z]/;
const LONG_WORD = 40; // characters: a longer word stays in its line, and breaks between its parts

/** A text of a cluster, displayed like words(). */
export const sentence = (text, most) => words(clean(text, most));

async function copied(button, text, code) {
  const label = button.firstChild; // keep the page's own text node: a redraw would add it again beside a new one
  const before = label.data;
  try {
    await navigator.clipboard.writeText(text);
    label.data = "Copied";
  } catch {
    if (code) getSelection().selectAllChildren(code);
    label.data = code ? "Selected" : "Not allowed";
  }
  setTimeout(() => (label.data = before), 2_000);
}

/** The object, as an argument of kubectl. */
export const kubectl = (row) => `${row.resource}/${row.name}${row.namespace ? ` -n ${row.namespace}` : ""}`;

/** A command, with a button that copies it. */
export function command(text) {
  return h(
    "div",
    { class: "command" },
    h("code", null, sentence(text, 2_000)),
    h("button", { type: "button", onclick: (event) => copied(event.currentTarget, text, event.currentTarget.previousSibling), "aria-label": `Copy: ${clean(text)}` }, "Copy"),
  );
}

/** A button that copies the result of make(), for a chat. */
export const copyText = (make) =>
  h("button", { type: "button", onclick: (event) => copied(event.currentTarget, make()) }, "Copy as text");

const SIZE = 100; // rows of one page

/** The rows of the page that the address names, and links to the other pages. At first, fewer rows are drawn. */
export function paged(rows, { query, drawn }) {
  const from = Math.min(Math.max(Number(query.get("from")) || 0, 0), Math.max(rows.length - 1, 0));
  const begin = from - (from % SIZE);
  const end = Math.min(begin + SIZE, rows.length);
  const to = (place, title) => h("a", { href: address({ from: place || "" }, query) }, title);
  const links =
    rows.length > SIZE
      ? h(
          "nav",
          { class: "strip", "aria-label": "Rows" },
          `Rows ${count(begin + 1)} to ${count(end)} of ${count(rows.length)}`,
          begin > 0 ? to(begin - SIZE, "Previous") : null,
          end < rows.length ? to(end, "Next") : null,
        )
      : null;
  const shown = rows.slice(begin, Math.min(end, begin + drawn));
  return { shown, links, left: end - begin - shown.length };
}

/** A dialog over the page: content(dialog) ──▶ elements. It is removed when it is closed. */
export function dialog(title, build) {
  const before = document.activeElement;
  const node = document.createElement("dialog");
  node.setAttribute("aria-label", title);
  document.body.append(node);
  node.addEventListener("close", () => {
    node.remove();
    if (before && before.isConnected) before.focus();
  });
  build(node);
  node.showModal();
  return node;
}
