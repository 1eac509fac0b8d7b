// Pages that are lists: rollouts, pods that wait, jobs and images, other objects, health.

import { h, lazy } from "./dom.js";
import { address, command, link, name, paged, progress, state, table, when, workloadLink } from "./parts.js";
import { clean, count, many } from "./words.js";

const ORDER = { person: 0, moves: 1, still: 2 };

/** What was typed: words that a row has, `!word` that it has not, `label:value`, `"exact name"`. */
export function matcher(text) {
  const terms = (text || "").match(/!?"[^"]*"|[^\s,]+/g) || [];
  const tests = terms.map((term) => {
    const isNot = term.startsWith("!");
    const word = (isNot ? term.slice(1) : term).toLowerCase();
    const test = one(word);
    return isNot ? (row) => !test(row) : test;
  });
  return (row) => tests.every((test) => test(row));
}

function one(word) {
  if (word.startsWith('"')) return (row) => row.name.toLowerCase() === word.replaceAll('"', "");
  const [label, value] = word.split(":");
  if (value !== undefined && label) {
    return (row) => Object.entries(row.labels || {}).some(([k, v]) => k.toLowerCase() === label && v.toLowerCase() === value);
  }
  return (row) =>
    [row.namespace, row.name, row.kind, row.code, row.owner, row.node].some((part) => part && part.toLowerCase().includes(word));
}

function options(title, key, values, { query, go }) {
  const present = query.get(key) || "";
  const all = present && !values.includes(present) ? [present, ...values] : values;
  return h(
    "label",
    null,
    title,
    h(
      "select",
      { onchange: (event) => go({ [key]: event.target.value, from: "" }), value: present },
      h("option", { value: "" }, "all"),
      all.map((value) => h("option", { key: value, value, selected: value === present }, clean(value))),
    ),
  );
}

const distinct = (rows, key) => [...new Set(rows.map((row) => row[key]).filter(Boolean))].sort();

export function filters(rows, around, ...further) {
  const { query, go } = around;
  return h(
    "form",
    { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
    h(
      "label",
      null,
      "Find",
      h("input", {
        id: "find",
        type: "search",
        placeholder: "name, label:value, !not",
        "aria-keyshortcuts": "/",
        value: query.get("q") || "",
        oninput: (event) => go({ q: event.target.value, from: "" }, { replace: true }),
      }),
    ),
    options("Namespace", "namespace", distinct(rows, "namespace"), around),
    ...further,
  );
}

function sorted(rows, keys, around, usual) {
  const { query, go } = around;
  const by = query.get("sort") || "";
  const down = query.get("down") === "1";
  const key = keys[by];
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const found = key
    ? [...rows].sort((a, b) => (down ? -1 : 1) * compare(key(a), key(b)) || compare(a.id, b.id))
    : [...rows].sort(usual);
  const to = (wanted) => go({ sort: wanted, down: by === wanted && !down ? "1" : "" });
  return [found, { by, down, to }];
}

const byState = (a, b) =>
  ORDER[a.state] - ORDER[b.state] ||
  (a.state === "still" ? 0 : (a.since || "") < (b.since || "") ? -1 : (a.since || "") > (b.since || "") ? 1 : 0) ||
  (a.id < b.id ? -1 : 1);

const share = (row) => (row.desired ? (row.updated || 0) / row.desired : 1);

const ROLLOUT_KEYS = {
  state: (row) => ORDER[row.state],
  kind: (row) => row.kind,
  name: (row) => `${row.namespace}/${row.name}`,
  progress: share,
  waits: (row) => row.code || "~",
  since: (row) => row.since || "",
};

export function rollouts(live, around) {
  const { query } = around;
  const all = [...live.rows.values()];
  const find = matcher(query.get("q"));
  const [kind, namespace, wanted] = ["kind", "namespace", "state"].map((key) => query.get(key));
  const meant = all.filter(
    (row) => (!kind || row.kind === kind) && (!namespace || row.namespace === namespace) && find(row),
  );
  const counts = { person: 0, moves: 0, still: 0 };
  for (const row of meant) counts[row.state] += 1;
  const [rows, sort] = sorted(wanted ? meant.filter((row) => row.state === wanted) : meant, ROLLOUT_KEYS, around, byState);
  const chip = (value, title, number) =>
    h(
      "a",
      { href: address({ state: value, from: "" }, query), "aria-current": (wanted || "") === value ? "true" : false },
      `${title} ${count(number)}`,
    );
  const { shown, links, left } = paged(rows, around);
  return {
    title: "Rollouts",
    summary: `${counts.person} need action, ${counts.moves} move, ${counts.still} are still`,
    left,
    body: [
      filters(all, around, options("Kind", "kind", distinct(all, "kind"), around)),
      h(
        "nav",
        { class: "chips", "aria-label": "State" },
        chip("", "All", meant.length),
        chip("person", "▲ Need action", counts.person),
        chip("moves", "● Move", counts.moves),
        chip("still", "○ Still", counts.still),
      ),
      rows.length
        ? table(
            `Rollouts: ${many(rows.length, "row")}`,
            [
              ["State", "c-state", "state"],
              ["Kind", "c-kind", "kind"],
              ["Namespace / name", "c-name", "name"],
              ["Pods", "c-progress", "progress"],
              ["Images", "c-images"],
              ["Waits for", "c-waits", "waits"],
              ["Since", "c-since", "since"],
            ],
            shown.map((row) => lazy(row.id, row, () => rolloutRow(row))),
            { sort },
          )
        : h("p", null, all.length ? "Nothing matches." : "There are no rollouts here that you may see."),
      links,
    ],
  };
}

function rolloutRow(row) {
  const was = row.old_images || [];
  const is = row.images || [];
  return h(
    "tr",
    { class: row.state },
    h("td", null, state(row.state, row.phase)),
    h("td", null, row.kind),
    h("th", { scope: "row" }, row.namespace ? [name(row.namespace), " / "] : null, workloadLink(row, name(row.name))),
    h("td", null, progress(row)),
    h("td", { class: "images" }, was.length ? [was.map((one) => clean(one)).join(", "), " → "] : null, is.map((one) => clean(one)).join(", ")),
    h("td", null, h("div", { class: "few" }, row.code ? [h("b", null, clean(row.code)), ": ", clean(row.waits)] : row.state === "still" ? null : clean(row.line))),
    h("td", null, when(row.since)),
  );
}

export function pods(live, around) {
  const { query } = around;
  const all = [...live.rows.values()];
  const find = matcher(query.get("q"));
  const [namespace, code] = [query.get("namespace"), query.get("code")];
  const meant = all.filter((row) => (!namespace || row.namespace === namespace) && find(row));
  const groups = new Map();
  for (const row of meant) {
    if (!groups.has(row.code)) groups.set(row.code, []);
    groups.get(row.code).push(row);
  }
  const order = [...groups.entries()].sort(
    ([a, one], [b, other]) =>
      Number(other[0].needs_a_person || false) - Number(one[0].needs_a_person || false) || other.length - one.length || (a < b ? -1 : 1),
  );
  const asked = order.filter(([one]) => !code || one === code);
  for (const [, rows] of asked) {
    rows.sort((a, b) => ((a.since || "") < (b.since || "") ? -1 : (a.since || "") > (b.since || "") ? 1 : a.id < b.id ? -1 : 1));
  }
  const { shown: visible, links, left } = paged(asked.flatMap(([, rows]) => rows), around);
  const isVisible = new Set(visible);
  const sections = asked.map(([cause, rows]) => {
    const shown = rows.filter((row) => isVisible.has(row));
    if (!shown.length) return null;
    const first = rows[0];
    return h(
      "section",
      { key: cause },
      h("h2", null, state(first.needs_a_person ? "person" : "moves", cause), ` ${many(rows.length, "pod")}`),
      first.remedy ? h("p", null, `→ ${clean(first.remedy, 1_000)}`) : null,
      table(
        `Pods that wait for ${clean(cause)}`,
        [["Namespace / pod", "c-name"], ["Of", "c-kind"], ["Why", "c-waits"], ["State", "c-state"], ["Node", "c-node"], ["Since", "c-since"]],
        shown.map((row) => lazy(row.id, row, () => podRow(row))),
        { hidden: true },
      ),
    );
  });
  return {
    title: "Pods that wait",
    summary: `${many(meant.length, "pod")} wait, for ${many(groups.size, "cause")}`,
    left,
    body: [
      filters(all, around, options("Cause", "code", [...groups.keys()].sort(), around)),
      visible.length ? sections : h("p", null, all.length ? "No pod is like that." : "No pod waits that you may see."),
      links,
    ],
  };
}

function podRow(row) {
  const owner = row.owner
    ? [`${row.owner_kind} `, workloadLink({ resource: row.owner_resource, namespace: row.namespace, name: row.owner }, name(row.owner))]
    : "no workload that is shown";
  return h(
    "tr",
    null,
    h("th", { scope: "row" }, name(row.namespace), " / ", name(row.name)),
    h("td", null, owner),
    h("td", null, clean(row.words)),
    h("td", null, clean(row.state), row.restarts ? `, ${many(row.restarts, "restart")}` : ""),
    h("td", null, row.node ? name(row.node) : null),
    h("td", null, when(row.since)),
  );
}

export function jobs(live, around) {
  const { query } = around;
  const all = [...live.rows.values()];
  const find = matcher(query.get("q"));
  const [kind, namespace] = [query.get("kind"), query.get("namespace")];
  const isNode = (row) => row.is_node;
  const meant = all.filter((row) => (!kind || row.kind === kind) && (isNode(row) || !namespace || row.namespace === namespace) && find(row));
  const [found, sort] = sorted(
    meant.filter((row) => !isNode(row)),
    { state: (row) => ORDER[row.state], kind: (row) => row.kind, name: (row) => `${row.namespace}/${row.name}`, begun: (row) => row.begun || "" },
    around,
    byState,
  );
  const nodes = meant.filter(isNode).sort((a, b) => byState(a, b));
  const { shown, links, left } = paged([...found, ...nodes], around);
  const counts = { person: 0, moves: 0, still: 0 };
  for (const row of found) counts[row.state] += 1;
  return {
    title: "Jobs and images",
    summary: `${many(found.length, "job")}: ${counts.person} failed somewhere, ${counts.moves} run, ${counts.still} are still; images on ${many(nodes.length, "node")}`,
    left,
    body: [
      filters(all, around, options("Kind", "kind", distinct(all, "kind"), around)),
      found.length
        ? table(
            `Jobs: ${many(found.length, "row")}`,
            [["State", "c-state", "state"], ["Kind", "c-kind", "kind"], ["Namespace / name", "c-name", "name"], ["Done", "c-progress"], ["Says", "c-waits"], ["Begun", "c-since", "begun"]],
            shown.filter((row) => !isNode(row)).map((row) => lazy(row.id, row, () => jobRow(row))),
            { sort },
          )
        : h("p", null, "There are no jobs here that you may see."),
      nodes.length
        ? table(
            `Images on nodes: ${many(nodes.length, "node")}`,
            [["Node", "c-name"], ["Images", "c-waits"]],
            shown.filter(isNode).map((row) => lazy(row.id, row, () => nodeRow(row))),
          )
        : null,
      links,
    ],
  };
}

function jobRow(row) {
  const parts = [`${row.succeeded || 0} of ${row.desired || 0} done`];
  if (row.active) parts.push(`${row.active} active`);
  if (row.failed) parts.push(`${row.failed} failed`);
  return h(
    "tr",
    { class: row.state },
    h("td", null, state(row.state, row.phase)),
    h("td", null, row.kind),
    h("th", { scope: "row" }, row.namespace ? [name(row.namespace), " / "] : null, workloadLink(row, name(row.name))),
    h("td", null, row.schedule ? `${clean(row.schedule)}; ${many(row.active || 0, "run")} active` : parts.join(", ")),
    h("td", null, clean(row.line)),
    h("td", null, when(row.begun)),
  );
}

function nodeRow(row) {
  const images = row.images || [];
  return h(
    "tr",
    { class: row.state },
    h("th", { scope: "row" }, name(row.name)),
    h(
      "td",
      null,
      images.length
        ? h("ul", { class: "plain" }, images.map((one) => h("li", { key: one.image }, `${clean(one.image)}: ${clean(one.phase)}${one.phase === "Pulling" ? ` ${one.progress || 0}%` : ""}`, one.message ? ` (${clean(one.message)})` : "")))
        : "no images are asked for",
    ),
  );
}

export function others(live, around) {
  const { query } = around;
  const all = [...live.rows.values()];
  const find = matcher(query.get("q"));
  const [kind, namespace] = [query.get("kind"), query.get("namespace")];
  const meant = all.filter((row) => (!kind || row.kind === kind) && (!namespace || row.namespace === namespace) && find(row));
  const [rows, sort] = sorted(
    meant,
    { state: (row) => ORDER[row.state], kind: (row) => row.kind, name: (row) => `${row.namespace}/${row.name}`, since: (row) => row.since || "" },
    around,
    (a, b) => (a.id < b.id ? -1 : 1),
  );
  const { shown, links, left } = paged(rows, around);
  return {
    title: "Other objects",
    summary: many(rows.length, "object"),
    left,
    body: [
      filters(all, around, options("Kind", "kind", distinct(all, "kind"), around)),
      rows.length
        ? table(
            `Other objects: ${many(rows.length, "row")}`,
            [["State", "c-state", "state"], ["Kind", "c-kind", "kind"], ["Namespace / name", "c-name", "name"], ["Says", "c-waits"], ["Since", "c-since", "since"]],
            shown.map((row) => lazy(row.id, row, () => otherRow(row))),
            { sort },
          )
        : h("p", null, all.length ? "Nothing matches." : "There are no other objects here that you may see."),
      links,
    ],
  };
}

function otherRow(row) {
  return h(
    "tr",
    null,
    h("td", null, state(row.state, row.phase)),
    h("td", null, row.kind),
    h("th", { scope: "row" }, row.namespace ? [name(row.namespace), " / "] : null, workloadLink(row, name(row.name))),
    h("td", null, clean(row.line)),
    h("td", null, when(row.since)),
  );
}

const LEVELS = { fault: ["person", "fault"], warning: ["moves", "warning"], unknown: ["moves", "unknown"], ok: ["still", "ok"] };
const LEVEL_ORDER = { fault: 0, warning: 1, unknown: 2, ok: 3 };

export function health(live) {
  const rows = [...live.rows.values()];
  const note = rows.find((row) => row.id === "note");
  const managers = rows.filter((row) => row.manager);
  const findings = rows.filter((row) => row.check).sort((a, b) => LEVEL_ORDER[a.level] - LEVEL_ORDER[b.level] || (a.id < b.id ? -1 : 1));
  const bad = findings.filter((row) => row.level === "fault").length;
  return {
    title: "Health",
    summary: live.isSynced && rows.length ? `${many(bad, "fault")} found` : "looking",
    left: 0,
    body: [
      note ? h("p", null, clean(note.note, 1_000)) : null,
      managers.length
        ? table(
            "Managers",
            [["Manager", "c-name"], ["State", "c-state"], ["Ready", "c-kind"], ["Node", "c-node"], ["Leads", "c-waits"]],
            managers.map((row) =>
              h("tr", { key: row.id }, h("th", { scope: "row" }, name(row.manager)), h("td", null, clean(row.state), row.restarts ? `, ${many(row.restarts, "restart")}` : ""), h("td", null, row.ready), h("td", null, name(row.node)), h("td", null, row.leads ? ["leads; renewed ", when(row.renewed), " ago"] : "stands by")),
            ),
          )
        : null,
      findings.length
        ? table(
            "What pykruise doctor finds",
            [["", "c-state"], ["Check", "c-kind"], ["Finding", "c-waits"], ["What to do", "c-waits"]].map(([title, kind]) => [title || "Level", kind]),
            findings.map((row) => h("tr", { key: row.id }, h("td", null, state(...(LEVELS[row.level] || ["still", row.level]))), h("th", { scope: "row" }, clean(row.check)), h("td", null, clean(row.what, 2_000)), h("td", null, clean(row.fix, 2_000)))),
          )
        : rows.length
          ? null
          : h("p", null, "Looking at the installation …"),
      h("p", null, "The same on a command line:"),
      command("pykruise doctor"),
    ],
  };
}

export { link };
