// The page of one object: why, revisions and pods, what comes next, what if, conditions, events, history, commands.

import { h, patch } from "./dom.js";
import { ask } from "./net.js";
import { command, name, progress, state, table, when } from "./parts.js";
import { clean, many } from "./words.js";

const part = (live, id) => live.rows.get(id);

export function workload(live, around) {
  const { query } = around;
  const title = `${clean(query.get("namespace") ? `${query.get("namespace")}/` : "")}${clean(query.get("name"))}`;
  const head = part(live, "head");
  const remark = part(live, "remark");
  if (!head) {
    const text = remark ? clean(remark.text, 1_000) : live.isSynced ? "There is nothing of that name that you may see." : "Loading …";
    return { title, summary: text, left: 0, body: h("p", null, text) };
  }
  const why = part(live, "explained");
  const row = head.row;
  return {
    title: `${row.kind} ${title}`,
    summary: row.phase,
    left: 0,
    body: [
      h("p", { class: "sentence" }, state(row.state, row.phase), " ", why && why.headline ? clean(`${capital(why.headline)}.`, 1_000) : clean(row.line)),
      progress(row),
      images(row),
      why ? waits(why) : null,
      revisions(part(live, "pods"), head),
      nodes(part(live, "nodes")),
      head.what_if.length ? whatIf(head, around) : null,
      commands(head, around),
      history(part(live, "history"), head),
      conditions(head),
      events(part(live, "events")),
    ],
  };
}

const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

function images(row) {
  const was = row.old_images || [];
  if (!(row.images || []).length) return null;
  return h("p", { class: "images" }, was.length ? `${was.map((one) => clean(one)).join(", ")} → ` : "Images: ", row.images.map((one) => clean(one)).join(", "));
}

function list(title, lines) {
  if (!lines || !lines.length) return null;
  return h("section", { key: title }, h("h2", null, title), h("ul", null, lines.map((line) => h("li", null, clean(line, 2_000)))));
}

function waits(why) {
  if (why.remark) return h("section", { key: "why" }, h("h2", null, "Why"), h("p", null, clean(why.remark, 2_000)));
  const found = (why.waits || []).map((one) => {
    const more = one.count > one.pods.length ? `, and ${one.count - one.pods.length} more` : "";
    return h(
      "li",
      null,
      h("b", null, clean(one.code)),
      ": ",
      one.pods.length ? [one.pods.map((pod) => clean(pod)).join(", "), more, ": "] : null,
      clean(one.words, 2_000),
      one.since ? [" (for ", when(one.since), ")"] : null,
      one.again ? ["; next try ", clean(one.again)] : null,
      one.remedy ? h("p", { class: "remedy" }, `→ ${clean(one.remedy, 2_000)}`) : null,
    );
  });
  return [
    why.condition ? h("p", { key: "says" }, h("b", null, "Condition: "), clean(why.condition, 2_000)) : null,
    list("Done", why.done),
    found.length
      ? h("section", { key: "waits", id: "waits" }, h("h2", null, why.verdict === "done" ? "On hold, as configured" : "Waiting for"), h("ul", null, found))
      : null,
    list("Next", why.next),
  ];
}

function revisions(pods, head) {
  if (!pods) return h("section", { key: "pods" }, h("h2", null, "Pods"), h("p", null, "Pods are not shown: you may not list them."));
  const isPerNode = head.is_per_node;
  const rows = pods.groups.map((group) => {
    const hasSubsets = group.pods.some((pod) => pod.subset);
    const sorted = isPerNode ? [...group.pods].sort((a, b) => ((a.node || "") < (b.node || "") ? -1 : 1)) : group.pods;
    const title = `${group.number ? `Revision ${group.number}` : "No stored revision"}${group.revision ? ` (${clean(group.revision)})` : ""}, ${group.is_newest ? "new" : "old"}: ${many(group.pods.length + (group.more || 0), "pod")}`;
    return h(
      "details",
      { key: group.revision || "none", open: true },
      h("summary", null, h("h3", null, title)),
      table(
        title,
        [...(isPerNode ? [["Node", "c-node"]] : []), ["Pod", "c-name"], ["State", "c-state"], ["Ready", "c-ready"], ...(hasSubsets ? [["Subset", "c-kind"]] : []), ...(isPerNode ? [] : [["Node", "c-node"]]), ["Why", "c-waits"], ["Age", "c-since"]],
        sorted.map((pod) =>
          h(
            "tr",
            { key: `${pod.namespace}/${pod.name}` },
            isPerNode ? h("td", null, name(pod.node || "")) : null,
            h("th", { scope: "row" }, name(pod.name)),
            h("td", null, clean(pod.state), pod.restarts ? `, ${many(pod.restarts, "restart")}` : ""),
            h("td", null, pod.ready),
            hasSubsets ? h("td", null, clean(pod.subset)) : null,
            isPerNode ? null : h("td", null, name(pod.node || "")),
            h("td", null, clean(pod.why)),
            h("td", null, when(pod.created)),
          ),
        ),
        { hidden: true },
      ),
      group.more ? h("p", null, `${many(group.more, "pod")} more are not shown`) : null,
    );
  });
  return h("section", { key: "pods", id: "pods" }, h("h2", null, `Revisions and pods: ${many(pods.count, "pod")}`), rows.length ? rows : h("p", null, "No pods."));
}

function nodes(found) {
  if (!found) return null;
  return h(
    "section",
    { key: "nodes" },
    h("h2", null, "Nodes"),
    table(
      "How far each node is",
      [["Node", "c-node"], ["Phase", "c-state"], ["Progress", "c-kind"], ["Message", "c-waits"]],
      found.nodes.map((one) => h("tr", { key: one.node }, h("th", { scope: "row" }, name(one.node)), h("td", null, clean(one.phase)), h("td", null, clean(one.progress)), h("td", null, clean(one.message)))),
      { hidden: true },
    ),
  );
}

function conditions(head) {
  if (!head.conditions.length) return null;
  return h(
    "section",
    { key: "conditions" },
    h("h2", null, "Conditions"),
    table(
      "Conditions",
      [["Type", "c-kind"], ["Status", "c-ready"], ["Reason", "c-kind"], ["Message", "c-waits"], ["Since", "c-since"]],
      head.conditions.map((one) => h("tr", { key: one.type }, h("th", { scope: "row" }, clean(one.type)), h("td", null, clean(one.status)), h("td", null, clean(one.reason)), h("td", null, clean(one.message, 2_000)), h("td", null, when(one.since)))),
      { hidden: true },
    ),
  );
}

function events(found) {
  if (!found) return h("section", { key: "events" }, h("h2", null, "Events"), h("p", null, "Events are not shown: you may not list them."));
  return h(
    "section",
    { key: "events" },
    h("h2", null, "Events"),
    found.events.length
      ? table(
          "Events",
          [["Type", "c-state"], ["Reason", "c-kind"], ["Message", "c-waits"], ["Times", "c-ready"], ["Last", "c-since"]],
          found.events.map((one) => h("tr", null, h("td", null, clean(one.type)), h("th", { scope: "row" }, clean(one.reason)), h("td", null, clean(one.message, 2_000)), h("td", null, String(one.count || 1)), h("td", null, when(one.last)))),
          { hidden: true },
        )
      : h("p", null, "None."),
  );
}

function history(found, head) {
  if (!found) return null;
  const undo = head.actions.find((one) => one.id === "undo");
  return h(
    "section",
    { key: "history", id: "history" },
    h("h2", null, "History"),
    found.revisions.map((one) =>
      h(
        "details",
        { key: one.name, open: one.is_newest },
        h("summary", null, h("h3", null, `Revision ${one.number}${one.is_newest ? ", the newest" : ""}`), one.cause ? ` ${clean(one.cause)}` : "", " ", when(one.created)),
        (one.changes || []).length ? h("ul", { class: "changes" }, one.changes.map((line) => h("li", null, h("code", null, clean(line, 2_000))))) : h("p", null, "The first that is stored, or no difference."),
        undo && !one.is_newest ? command(undo.command.replace("--to-revision=0", `--to-revision=${one.number}`)) : null,
      ),
    ),
  );
}

// ── what if ──────────────────────────────────────────────────────────────────

function whatIf(head, around) {
  const { row } = head;
  const submit = async (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const sets = {};
    for (const field of form.querySelectorAll("input[name]")) {
      if (field.value && field.value !== field.dataset.now) sets[field.name] = field.value;
    }
    const out = form.querySelector("output");
    await answered(form, out, async () => {
      const found = await ask("plan", { kind: row.resource, namespace: row.namespace, name: row.name, sets });
      return [
        h("pre", null, found.lines.map((line) => clean(line, 2_000)).join("\n")),
        found.chart ? h("img", { class: "chart", src: found.chart, alt: found.chart_text.join("\n") }) : null,
        command(found.command),
      ];
    });
  };
  const fields = head.what_if.map(([key, label, now]) =>
    h("label", { key }, clean(label), h("input", { name: key, placeholder: clean(now) || "not set", "data-now": now, autocomplete: "off", spellcheck: "false" })),
  );
  return h(
    "section",
    { key: "what-if", id: "what-if" },
    h("h2", null, "What if?"),
    h("p", null, "Change a field to preview the rollout. Nothing is written: this is what plan says, played from the pods as they are."),
    h("form", { onsubmit: submit, class: "box" }, h("div", { class: "fields" }, fields), h("button", { type: "submit" }, "Show what would happen"), lasting("output")),
  );
}

/** An element whose content is not this page's: it stays as it is while the page is made anew. */
const lasting = (tag) => ({ key: `lasting-${tag}`, memo: true, make: () => h(tag, { "aria-live": "polite" }) });

async function answered(form, out, work) {
  const buttons = form.querySelectorAll("button");
  for (const one of buttons) one.disabled = true;
  patch(out, [h("p", null, "Working …")]);
  try {
    patch(out, await work());
  } catch (error) {
    patch(out, [h("p", { class: "error" }, clean(error.message, 2_000))]);
  } finally {
    for (const one of buttons) one.disabled = false;
  }
}

// ── commands and actions ─────────────────────────────────────────────────────

const may = new Map();

function commands(head, around) {
  const { row } = head;
  if (!head.actions.length) return null;
  const hasButtons = around.session.has_actions && allowed(row, around);
  const one = (action) => {
    const submit = async (event) => {
      event.preventDefault();
      const form = event.currentTarget;
      const values = {};
      for (const field of form.querySelectorAll("input[name]")) values[field.name] = field.value || field.dataset.now;
      await answered(form, form.querySelector("output"), async () => {
        const asked = { kind: row.resource, namespace: row.namespace, name: row.name, action: action.id, values };
        const found = await ask("act", asked);
        return [h("pre", { class: found.code ? "error" : false }, clean(found.said || "done", 4_000))];
      });
    };
    const fields = (action.fields || []).map((field) =>
      h("label", { key: field.name }, clean(field.label), h("input", { name: field.name, placeholder: clean(field.value), "data-now": field.value, autocomplete: "off" })),
    );
    return h(
      "li",
      { key: action.id },
      h("h3", null, clean(action.title)),
      command(action.command),
      hasButtons ? h("form", { onsubmit: submit, class: "act" }, fields, h("button", { type: "submit" }, clean(action.title)), lasting("output")) : null,
    );
  };
  return h(
    "section",
    { key: "commands", id: "commands" },
    h("h2", null, around.session.has_actions ? "Actions" : "Commands"),
    around.session.has_actions && !hasButtons ? h("p", null, "There are no buttons: you may not change this object, or that is not known yet.") : null,
    h("ul", { class: "plain commands" }, head.actions.map(one)),
  );
}

/** Whether the API server lets this user change the object; asked once a minute, and the page is made anew then. */
function allowed(row, around) {
  const known = may.get(row.id);
  if (!known || Date.now() - known.at > 60_000) {
    may.set(row.id, { at: Date.now(), is: known ? known.is : false });
    ask("rights", { kind: row.resource, namespace: row.namespace, name: row.name })
      .then((found) => may.set(row.id, { at: Date.now(), is: found.may }))
      .catch(() => may.set(row.id, { at: Date.now(), is: false }))
      .finally(around.redraw);
  }
  return may.get(row.id).is;
}
