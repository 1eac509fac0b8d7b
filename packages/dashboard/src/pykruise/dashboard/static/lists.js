// Pages that do not list objects: waiting pods, and health.

import { h, lazy } from "./dom.js";
import { find, foldedFilters, matcher, memoOf, select } from "./overview.js";
import { broken, command, copyText, name, nodeLink, paged, sentence, when, workloadLink } from "./parts.js";
import { compare, tableOf } from "./table.js";
import { clean, many, titleLine } from "./words.js";

export function pods(live, around) {
  const { query } = around;
  const [namespace, code, text] = ["namespace", "code", "q"].map((key) => query.get(key));
  const matches = matcher(text);
  const table = tableOf(live, {
    key: JSON.stringify([namespace, text]),
    of: (id) => id,
    join: (rows, id) => rows.get(id),
    test: (row) => (!namespace || row.namespace === namespace) && matches(row),
    isListed: () => true,
    order: (a, b) => compare(a.since || "", b.since || ""),
  });
  const meant = table.listed;
  const groups = new Map();
  for (const row of meant) {
    if (!groups.has(row.code)) groups.set(row.code, []);
    groups.get(row.code).push(row);
  }
  const order = [...groups.entries()].sort(
    ([a, some], [b, other]) =>
      Number(other[0].needs_a_person || false) - Number(some[0].needs_a_person || false) || other.length - some.length || compare(a, b),
  );
  const asked = order.filter(([cause]) => !code || cause === code);
  const { shown: visible, links, left } = paged(asked.flatMap(([, rows]) => rows), around);
  const isVisible = new Set(visible);
  const sections = asked.map(([cause, rows]) => {
    const shown = rows.filter((row) => isVisible.has(row));
    if (!shown.length) return null;
    const needs = rows[0].needs_a_person;
    return h(
      "section",
      { key: cause, "aria-label": cause },
      h("h2", null, h("span", { class: `chip ${needs ? "Degraded" : "Progressing"}` }, h("span", { "aria-hidden": "true" }, needs ? "▲" : "●"), broken(cause)), ` ${many(rows.length, "pod")}`),
      rows[0].remedy ? h("p", { class: "remedy" }, sentence(rows[0].remedy, 1_000)) : null,
      h("ul", { class: "rows" }, bunched(shown).map(([first, ...others]) => lazy(first.id, memoOf(first, others), () => podRow(first, others)))),
    );
  });
  const people = meant.filter((row) => row.needs_a_person).length;
  return {
    title: "Pods that wait",
    summary: meant.length ? `${many(meant.length, "pod waits", "pods wait")}, for ${many(groups.size, "cause")}` : "0 pods wait",
    headline: people ? "bad" : "good",
    count: people,
    left,
    tools: copyText(() => [titleLine("Pods that wait", around.session.cluster), ...meant.map((row) => `${row.namespace}/${row.name}: ${row.code}: ${row.words}`)].join("\n")),
    body: [
      h(
        "form",
        { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
        find(around),
        foldedFilters(["namespace", "code"], query, [select("Namespace", "namespace", table.present.namespace.names(), around), select("Cause", "code", [...groups.keys()].sort(), around)]),
      ),
      visible.length ? sections : live.isSynced ? h("p", null, table.all.size ? "Nothing matches these filters." : "No pod that you may see waits.") : null,
      links,
    ],
  };
}

const ALONE = 3; // pods with the same words that still have a row each

/** Groups of pods of one workload that wait with the same words. The row of the first pod contains the other names. */
function bunched(rows) {
  const bunches = new Map();
  for (const row of rows) {
    const key = JSON.stringify([row.namespace, row.owner_kind, row.owner, row.words]);
    if (!bunches.has(key)) bunches.set(key, []);
    bunches.get(key).push(row);
  }
  return [...bunches.values()].flatMap((bunch) => (bunch.length > ALONE ? [bunch] : bunch.map((row) => [row])));
}

function podRow(row, others) {
  const owner = row.owner
    ? [broken(row.owner_kind), " ", workloadLink({ resource: row.owner_resource, namespace: row.namespace, name: row.owner }, name(row.owner))]
    : "no workload that is shown";
  return h(
    "li",
    { class: `row ${row.needs_a_person ? "Degraded" : "Progressing"}` },
    h("div", { class: "state" }, broken(row.state), row.restarts ? h("div", { class: "small" }, many(row.restarts, "restart")) : null),
    h("div", { class: "what" }, name(row.namespace), "/", h("wbr"), name(row.name)),
    h("div", { class: "small" }, owner),
    h("div", { class: "says" }, sentence(row.words, 1_000), row.node ? [" (node ", nodeLink(row.node), ")"] : null),
    h("div", { class: "since" }, when(row.since)),
    others.length
      ? h(
          "details",
          { class: "same" },
          h("summary", null, `${many(others.length, "more pod")} with the same cause`),
          h("ul", null, others.map((other) => h("li", { key: other.id }, name(other.name), other.node ? [" on ", nodeLink(other.node)] : null, h("span", { class: "small" }, " ", when(other.since))))),
        )
      : null,
  );
}

const LEVELS = { fault: ["Failed", "✖"], warning: ["Degraded", "▲"], unknown: ["Paused", "?"], ok: ["Healthy", "✔"] };
const LEVEL_ORDER = { fault: 0, warning: 1, unknown: 2, ok: 3 };

export function health(live) {
  const rows = [...live.rows.values()];
  const note = rows.find((row) => row.id === "note");
  const managers = rows.filter((row) => row.manager);
  const findings = rows.filter((row) => row.check).sort((a, b) => LEVEL_ORDER[a.level] - LEVEL_ORDER[b.level] || (a.id < b.id ? -1 : 1));
  const bad = findings.filter((row) => row.level === "fault").length;
  const level = (word) => h("span", { class: `chip ${(LEVELS[word] || ["Paused"])[0]}` }, h("span", { "aria-hidden": "true" }, (LEVELS[word] || ["", "?"])[1]), h("span", null, clean(word)));
  return {
    title: "Health",
    summary: findings.length || !live.isSynced ? `${many(bad, "fault")} found` : "",
    headline: bad ? "bad" : findings.length ? "good" : "",
    count: bad,
    left: 0,
    body: [
      note ? h("p", null, sentence(note.note, 1_000)) : null,
      managers.length
        ? h(
            "section",
            { "aria-label": "Managers" },
            h("h2", null, "Managers"),
            h(
              "ul",
              { class: "table" },
              managers.map((row) =>
                h("li", { key: row.id }, h("b", null, name(row.manager)), h("span", null, clean(row.state), ` ${row.ready}`), h("span", null, row.node ? ["node ", nodeLink(row.node), "; "] : null, row.leads ? ["leads; renewed ", when(row.renewed), " ago"] : "standby", row.restarts ? `; ${many(row.restarts, "restart")}` : "")),
              ),
            ),
          )
        : null,
      findings.length
        ? h(
            "section",
            { "aria-label": "Findings" },
            h("h2", null, "Findings of pykruise doctor"),
            h("ul", { class: "table" }, findings.map((row) => h("li", { key: row.id }, h("b", null, broken(row.check)), level(row.level), h("span", null, sentence(row.what, 2_000), row.fix ? h("p", { class: "remedy" }, sentence(row.fix, 2_000)) : null)))),
          )
        : null,
      h("p", null, "The same on a command line:"),
      command("pykruise doctor"),
    ],
  };
}
