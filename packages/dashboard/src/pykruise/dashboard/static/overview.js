// Lists of objects: counts by verdict, cards of objects that need action, rows that progress, settled rows, folded.
// rows and `why/…` rows ──▶ Table: joined, filtered, in order ──▶ groups ──▶ cards and rows

import { h, lazy } from "./dom.js";
import { PHASES, address, broken, chip, coded, command, copyText, foldedOnPhone, icon, iconText, kubectl, name, nodeLink, objectLink, paged, progress, sentence, when, workloadLink } from "./parts.js";
import { compare, tableOf } from "./table.js";
import { clean, count, many, titleLine } from "./words.js";

const ORDER = Object.fromEntries(PHASES.map((phase, place) => [phase, place]));
const OPEN = ["Progressing"];

/** The typed filter: `word` for rows with the word, `!word` for rows without it, `label:value`, `"exact name"`. */
export function matcher(text) {
  const terms = (text || "").match(/!?"[^"]*"|[^\s,]+/g) || [];
  const tests = terms.map((term) => {
    const isNot = term.startsWith("!");
    const test = wordTest((isNot ? term.slice(1) : term).toLowerCase());
    return isNot ? (row) => !test(row) : test;
  });
  return (row) => tests.every((test) => test(row));
}

function wordTest(word) {
  if (word.startsWith('"')) return (row) => row.name.toLowerCase() === word.replaceAll('"', "");
  const [label, value] = word.split(":");
  if (value !== undefined && label) {
    return (row) => Object.entries(row.labels || {}).some(([k, v]) => k.toLowerCase() === label && v.toLowerCase() === value);
  }
  return (row) =>
    [row.namespace, row.name, row.kind, row.code, row.owner, row.node, row.phase].some((part) => part && part.toLowerCase().includes(word));
}

export function select(title, key, values, { query, go }, all = "all") {
  const present = query.get(key) || "";
  const listed = present && !values.includes(present) ? [present, ...values] : values;
  return h(
    "label",
    null,
    title,
    h(
      "select",
      { onchange: (event) => go({ [key]: event.target.value, from: "" }), value: present },
      h("option", { value: "" }, all),
      listed.map((value) => h("option", { key: value, value, selected: value === present }, clean(value))),
    ),
  );
}

/** Filters that a phone folds away, with the number of those that are set. */
export function foldedFilters(keys, query, fields) {
  const set = keys.filter((key) => query.get(key)).length;
  return foldedOnPhone("filters", `Filters${set ? `: ${count(set)} set` : ""}`, h("div", { class: "filters" }, fields));
}

export function find({ query, go }) {
  return h(
    "label",
    { class: "grow" },
    "Find",
    h("input", {
      id: "find",
      type: "search",
      placeholder: "name, label:value, !not",
      "aria-keyshortcuts": "/",
      value: query.get("q") || "",
      oninput: (event) => go({ q: event.target.value, from: "" }, { replace: true }),
    }),
  );
}

// ── rows with the result of explain ──────────────────────────────────────────

const WHY = "why/";
const objectOf = (id) => (id.startsWith(WHY) ? id.slice(WHY.length) : id);

/** A row, with the result of explain if both have the same phase. */
function joined(rows, id) {
  const row = rows.get(id);
  const why = rows.get(`${WHY}${id}`);
  return why && why.phase === row.phase ? { ...row, code: why.code || "", waits: why.words || "", why } : row;
}

// ── saved filters ────────────────────────────────────────────────────────────

const saved = () => {
  try {
    return JSON.parse(localStorage.getItem("filters") || "{}");
  } catch {
    return {};
  }
};

function savedFilters(around) {
  const { query, go, redraw } = around;
  const known = saved();
  const keep = () => {
    const title = prompt("Name of this filter:", query.get("q") || query.get("namespace") || "");
    if (!title) return;
    localStorage.setItem("filters", JSON.stringify({ ...known, [title.slice(0, 40)]: String(query) }));
    redraw();
  };
  const forget = () => {
    const { [current]: _, ...rest } = known;
    localStorage.setItem("filters", JSON.stringify(rest));
    redraw();
  };
  const current = Object.keys(known).find((title) => known[title] === String(query)) || "";
  const open = (title) => title && go(Object.fromEntries([...new Set([...query.keys(), ...new URLSearchParams(known[title]).keys()])].map((key) => [key, new URLSearchParams(known[title]).get(key) || ""])));
  return [
    Object.keys(known).length
      ? h(
          "label",
          { key: "saved" },
          "Saved filters",
          h(
            "select",
            { onchange: (event) => open(event.target.value), value: current },
            h("option", { value: "" }, "choose"),
            Object.keys(known).sort().map((title) => h("option", { key: title, value: title, selected: title === current }, clean(title))),
          ),
        )
      : null,
    current ? h("button", { key: "forget", type: "button", onclick: forget }, "Forget filter") : h("button", { key: "keep", type: "button", onclick: keep }, "Save filter"),
  ];
}

// ── a page ───────────────────────────────────────────────────────────────────

const SORTS = {
  name: (a, b) => compare(`${a.namespace}/${a.name}`, `${b.namespace}/${b.name}`),
  kind: (a, b) => compare(a.kind, b.kind),
  newest: (a, b) => compare(sinceOf(b), sinceOf(a)),
};
const sinceOf = (row) => (row.why && row.why.since) || row.since || row.begun || "";
const byVerdict = (a, b) => ORDER[a.phase] - ORDER[b.phase] || (a.needs_action ? compare(sinceOf(a), sinceOf(b)) : 0) || compare(a.id, b.id);

const GROUPS = {
  namespace: (row) => row.namespace || "without a namespace",
  kind: (row) => row.kind,
  owner: (row, table) => {
    const owner = table.ownerOf(row);
    return owner ? `${owner.kind} ${owner.namespace}/${owner.name}` : "";
  },
};

/** A page of one board. `given`: its title, and the text and the command of an empty page. */
export const board = (given) => (live, around) => {
  const { query } = around;
  const [kind, namespace, wanted, sort, text] = ["kind", "namespace", "verdict", "sort", "q"].map((key) => query.get(key));
  const matches = matcher(text);
  const table = tableOf(live, {
    key: JSON.stringify([kind, namespace, wanted, sort, text]),
    of: objectOf,
    join: joined,
    test: (row) => (!kind || row.kind === kind) && (!namespace || row.namespace === namespace) && matches(row),
    isListed: (row) => !wanted || row.phase === wanted,
    order: SORTS[sort] || byVerdict,
  });
  const { kept, counts } = table;
  const isKept = (row) => table.view.test(row);
  const inAction = [...table.needing.values()].filter(isKept);
  const group = GROUPS[query.get("group")];
  const isListed = (row) => isKept(row) && table.view.isListed(row);
  const folds = group ? new Map() : table.folded(isListed);
  const listed = folds.size ? table.listed.filter((row) => !folds.has(row.id)) : table.listed;
  const parts = partsOf(folds, table);
  const action = inAction.length - table.folded(isKept).size;
  const { shown, links, left } = paged(listed, around);
  const isNarrowed = Boolean(wanted || kind || text);
  const progressing = counts.get("Progressing") || 0;
  return {
    title: given.title,
    summary: kept || !live.isSynced ? `${headline(action)}; ${count(progressing)} progressing, ${count(kept - inAction.length - progressing)} settled` : "",
    headline: action ? "bad" : kept ? "good" : "",
    count: table.needing.size - table.folded(() => true).size,
    tools: copyText(() => asText(given.title, around, listed, parts)),
    left,
    body: [
      live.isSynced ? strip(kept, counts, wanted, query) : null,
      h(
        "form",
        { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
        find(around),
        foldedFilters(["namespace", "kind", "group", "sort"], query, [
          select("Namespace", "namespace", table.present.namespace.names(), around),
          select("Kind", "kind", table.present.kind.names(), around),
          select("Group by", "group", Object.keys(GROUPS), around, "nothing"),
          select("Sort by", "sort", Object.keys(SORTS), around, "verdict"),
          savedFilters(around),
        ]),
      ),
      spaces(table.spaces, namespace, query),
      shown.length ? (group ? grouped(shown, group, table) : flat(shown, isNarrowed, parts)) : live.isSynced ? empty(table.all.size, given, query) : null,
      links,
    ],
  };
};

const headline = (action) => (action ? `${many(action, "needs", "need")} action` : "Nothing needs action");

function strip(kept, counts, wanted, query) {
  const to = (phase, number, text) =>
    h(
      "a",
      {
        key: phase || "all",
        class: `chip ${phase}${number ? "" : " none"}`,
        href: address({ verdict: wanted === phase ? "" : phase, from: "" }, query),
        "aria-current": (wanted || "") === phase ? "true" : false,
      },
      phase ? icon(phase) : null,
      h("b", null, count(number)),
      ` ${text}`,
    );
  return h("nav", { class: "strip", "aria-label": "Verdicts" }, to("", kept, "All"), PHASES.map((phase) => to(phase, counts.get(phase) || 0, phase)));
}

const MOST_SPACES = 12;

function spaces(found, namespace, query) {
  if (namespace) return h("p", { class: "small" }, "In namespace ", h("b", null, clean(namespace)), ". ", h("a", { href: address({ namespace: "", from: "" }, query) }, "Show all"));
  if (found.size < 2) return null;
  const bad = (counts) => (counts.get("Failed") || 0) + (counts.get("Degraded") || 0);
  const every = (counts) => [...counts.values()].reduce((sum, number) => sum + number, 0);
  const order = [...found]
    .map(([place, counts]) => ({ place, counts, bad: bad(counts), all: every(counts) }))
    .sort((a, b) => b.bad - a.bad || b.all - a.all || compare(a.place, b.place));
  return h(
    "ul",
    { class: "spaces", "aria-label": "Namespaces" },
    order.slice(0, MOST_SPACES).map(({ place, counts }) =>
      h(
        "li",
        { key: place },
        h("a", { href: address({ namespace: place, from: "" }, query) }, name(place)),
        PHASES.filter((phase) => counts.has(phase)).map((phase) => [" ", h("b", { class: phase, title: phase }, `${iconText(phase)}\u00a0${counts.get(phase)}`, h("span", { class: "unseen" }, ` ${phase}`))]),
      ),
    ),
    order.length > MOST_SPACES ? h("li", null, `and ${order.length - MOST_SPACES} more`) : null,
  );
}

function empty(others, given, query) {
  if (others) return h("p", null, query.get("q") ? `Nothing matches “${clean(query.get("q"), 100)}”. ` : "Nothing matches these filters. ", h("a", { href: address({ page: query.get("page") }) }, "Show all"));
  return h("div", { class: "panel" }, h("p", null, given.empty), command(given.first));
}

/** The rows that are folded under each card, by its id, in order. */
function partsOf(folds, table) {
  const parts = new Map();
  if (!folds.size) return parts;
  for (const row of table.listed) {
    const root = folds.get(row.id);
    if (root) parts.set(root.id, [...(parts.get(root.id) || []), row]);
  }
  return parts;
}

/** The number of objects of each kind, in words. */
function countedKinds(rows) {
  const kinds = new Map();
  for (const row of rows) kinds.set(row.kind, (kinds.get(row.kind) || 0) + 1);
  return [...kinds].map(([kind, number]) => many(number, kind)).join(", ");
}

const memos = new WeakMap(); // of a row: the parts from which its card was made

/** A value that changes when the row or one of its parts does. */
export function memoOf(row, parts) {
  if (!parts.length) return row;
  const known = memos.get(row);
  if (known && known.length === parts.length && known.every((part, place) => part === parts[place])) return known;
  memos.set(row, parts);
  return parts;
}

function flat(rows, isNarrowed, parts) {
  const under = (row) => parts.get(row.id) || [];
  const action = rows.filter((row) => row.needs_action);
  const open = rows.filter((row) => OPEN.includes(row.phase));
  const settled = rows.filter((row) => !row.needs_action && !OPEN.includes(row.phase));
  return [
    action.length ? h("section", { key: "action", "aria-label": "Needs action" }, h("h2", null, "Needs action"), h("div", { class: "cards" }, action.map((row) => lazy(row.id, memoOf(row, under(row)), () => card(row, under(row)))))) : null,
    open.length ? h("section", { key: "open", "aria-label": "Progressing" }, h("h2", null, "Progressing"), list(open)) : null,
    settled.length
      ? h(
          "section",
          { key: "settled", class: "settled", "aria-label": "Settled" },
          action.length && !isNarrowed
            ? h("details", { key: "folded" }, h("summary", null, h("h2", { class: "inline" }, `Settled: ${count(settled.length)}`)), list(settled))
            : [h("h2", null, "Settled"), list(settled)],
        )
      : null,
  ];
}

function grouped(rows, groupOf, table) {
  const groups = new Map();
  for (const row of rows) {
    const key = groupOf(row, table);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  const order = [...groups].sort(([a, one], [b, other]) => Number(a === "") - Number(b === "") || ORDER[one[0].phase] - ORDER[other[0].phase] || compare(a, b));
  return order.map(([key, own]) => {
    const parents = new Set(own.filter((row) => groupOf === GROUPS.owner && key === `${row.kind} ${row.namespace}/${row.name}`));
    const sorted = [...own].sort((a, b) => Number(parents.has(b)) - Number(parents.has(a)));
    return h("section", { key: `group-${key}`, "aria-label": key || "without owner" }, h("h2", null, key ? broken(key) : "Without an owner in this list", " ", h("span", { class: "small w" }, many(own.length, "object"))), list(sorted, (row) => groupOf === GROUPS.owner && key && !parents.has(row)));
  });
}

const list = (rows, isChild = () => false) => h("ul", { class: "rows" }, rows.map((row) => lazy(`${isChild(row) ? "child/" : ""}${row.id}`, row, () => line(row, isChild(row)))));

const title = (row) => [h("span", { class: "kind" }, broken(row.kind)), " ", workloadLink(row, row.namespace ? name(`${row.namespace}/`) : null, name(row.name))];

/** The command for a rollback if explain recommends one; otherwise the command explain. */
export function commandOf(row) {
  const to = row.why && row.why.rollback_to;
  if (to) return `kubectl kruise rollout undo ${row.resource}/${row.name} --to-revision=${to}${row.namespace ? ` -n ${row.namespace}` : ""}`;
  return `kubectl kruise explain ${kubectl(row)}`;
}

const MOST_PARTS = 100;

function card(row, parts) {
  const why = row.why || {};
  const pods = why.pods || [];
  return h(
    "article",
    { class: `card ${row.phase}`, "aria-label": `${row.kind} ${row.name}` },
    h("div", { class: "top" }, chip(row.phase), h("span", { class: "since" }, when(sinceOf(row)))),
    h("h3", null, title(row)),
    h("p", { class: "cause" }, row.code ? coded(row.code) : null, pods.length ? `${pods.map((pod) => clean(pod)).join(", ")}${why.count > pods.length ? ` and ${why.count - pods.length} more` : ""}: ` : null, sentence(row.waits || row.line, 1_000)),
    why.remedy ? h("p", { class: "remedy" }, sentence(why.remedy, 1_000)) : null,
    command(commandOf(row)),
    progress(row),
    parts.length
      ? h(
          "details",
          { class: "same" },
          h("summary", null, `Same cause: ${countedKinds(parts)}`),
          h("ul", null, parts.slice(0, MOST_PARTS).map((part) => h("li", { key: part.id }, h("span", { class: "kind" }, broken(part.kind)), " ", objectLink(part, part.namespace ? name(`${part.namespace}/`) : null, name(part.name))))),
          parts.length > MOST_PARTS ? h("p", { class: "small" }, `${many(parts.length - MOST_PARTS, "more is", "more are")} not shown`) : null,
        )
      : null,
  );
}

function line(row, isChild) {
  const was = row.old_images || [];
  return h(
    "li",
    { class: `row ${row.phase}${isChild ? " child" : ""}` },
    chip(row.phase),
    h("div", { class: "what" }, title(row)),
    progress(row),
    h(
      "div",
      { class: "says" },
      row.is_node ? [nodeLink(row.name, "Node page"), " "] : null,
      row.code ? [coded(row.code), sentence(row.waits, 300)] : row.phase === "Progressing" || !row.desired ? sentence(row.line, 300) : null,
      was.length ? h("div", null, was.map((image) => name(image)), " → ", (row.images || []).map((image) => name(image))) : null,
    ),
    h("div", { class: "since" }, when(sinceOf(row))),
  );
}

/** Text for a chat: a line for each object, those that need action first. */
function asText(title, around, rows, parts) {
  const lines = rows.slice(0, 50).map((row) => {
    const cause = row.code ? `: ${row.code}: ${clean(row.waits, 200)}` : "";
    const under = parts.get(row.id);
    const same = under ? ` (same cause: ${countedKinds(under)})` : "";
    const remedy = row.why && row.why.remedy ? `\n    → ${clean(row.why.remedy, 300)}` : "";
    return `${iconText(row.phase)} ${row.phase} ${row.kind} ${row.namespace ? `${row.namespace}/` : ""}${row.name}${cause}${same}${remedy}`;
  });
  const more = rows.length > 50 ? [`… and ${rows.length - 50} more`] : [];
  return [titleLine(title, around.session.cluster), ...lines, ...more].join("\n");
}

export const rollouts = board({
  title: "Rollouts",
  empty: "There are no rollouts here that you may see. The examples in the repository contain one of each kind:",
  first: "kubectl apply -R -f examples/",
});
export const jobs = board({
  title: "Jobs and images",
  empty: "There are no jobs here that you may see. The examples in the repository contain one of each kind:",
  first: "kubectl apply -R -f examples/",
});
export const others = board({
  title: "Other objects",
  empty: "There are no other objects here that you may see. The examples in the repository contain one of each kind:",
  first: "kubectl apply -R -f examples/",
});
