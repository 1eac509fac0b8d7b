// The page of one object: verdict, cause ▸ remedy ▸ command, pods by revision as squares, and everything that is known.

import { h, lazy, patch } from "./dom.js";
import { ask } from "./net.js";
import { PHASE_OF_IMAGE, PHASE_OF_LOOK, absent, address, broken, byLook, chip, chipOf, coded, command, copyText, dialog, foldedOnPhone, hasProgress, icon, iconText, kubectl, name, nodeLink, printed, progress, sentence, when, workloadLink } from "./parts.js";
import { compare } from "./table.js";
import { clean, count, many, titleLine } from "./words.js";

const part = (live, id) => live.rows.get(id);
const BOARDS = [["rollouts", "Rollouts"], ["jobs", "Jobs and images"], ["others", "Other objects"], ["pods", "Pods that wait"]];

export function workload(live, around) {
  const { query } = around;
  const where = query.get("namespace");
  const said = `${clean(where ? `${where}/` : "")}${clean(query.get("name"))}`;
  const head = part(live, "head");
  if (!head) {
    const remark = part(live, "remark");
    const text = remark ? capital(clean(remark.text, 1_000)) : absent(live, "There is no object with this name that you may see.");
    return { title: said, summary: "", left: 0, body: h("div", null, h("p", null, text), h("p", null, "Back to: ", BOARDS.map(([page, title], place) => [place ? " · " : "", h("a", { href: address({ page }) }, title)]))) };
  }
  const why = part(live, "explained");
  const { row } = head;
  const phase = (why && !why.remark && why.phase) || row.phase;
  const actions = actionRow(head, live, around);
  return {
    title: `${row.kind} ${said}`,
    heading: [broken(row.kind), " ", row.namespace ? name(`${row.namespace}/`) : null, name(row.name)],
    chip: chip(phase),
    summary: "",
    spoken: `${phase}. ${why ? why.headline : row.line || ""}`,
    headline: "",
    count: phase === "Failed" || phase === "Degraded" ? 1 : 0,
    tools: why && why.text ? copyText(() => `${titleLine(`${row.kind} ${said}`, around.session.cluster)}\n${why.text}`) : null,
    left: podsLeft(part(live, "pods"), around),
    body: [
      row.is_node ? h("p", { key: "node" }, nodeLink(row.name, "The page of this node")) : null,
      h("p", { key: "sentence" }, why && why.headline ? clean(`${capital(why.headline)}.`, 1_000) : clean(row.line || "")),
      actions,
      h(
        "div",
        { key: "columns", class: "columns" },
        h("div", { key: "why", id: "why", class: `panel ${phase}` }, causes(why, head, phase, live)),
        howFar(head, live, around),
      ),
      h(
        "nav",
        { key: "jump", class: "jump", "aria-label": "Parts of this page" },
        PARTS.filter(([id]) => hasPart(id, live, head)).map(([id, title]) => h("a", { key: id, href: `#${id}`, onclick: (event) => jump(event, id) }, title)),
      ),
      head.has_pods ? podList(part(live, "pods"), head, around) : null,
      nodes(part(live, "nodes")),
      history(part(live, "history"), head),
      events(part(live, "events"), row, live),
      conditions(head),
      head.what_if.length ? whatIf(head) : null,
      commands(head),
      folded("yaml", "YAML", [head.yaml ? h("pre", { tabindex: "0" }, head.yaml) : h("p", null, "It is too long for this page:"), command(`kubectl get ${kubectl(row)} -o yaml`)]),
      why && why.text ? folded("text", "As text", [h("pre", { tabindex: "0" }, clean(why.text, 60_000)), command(`kubectl kruise explain ${kubectl(row)}`)]) : null,
    ],
  };
}

const PARTS = [["pods", "Pods"], ["nodes", "Nodes"], ["history", "Revisions"], ["events", "Events"], ["conditions", "Conditions"], ["what-if", "What if?"], ["commands", "Commands"], ["yaml", "YAML"], ["text", "As text"]];

/** Whether the page of this object has that part. */
function hasPart(id, live, head) {
  const why = part(live, "explained");
  const known = { pods: head.has_pods && part(live, "pods"), nodes: part(live, "nodes"), history: part(live, "history"), "what-if": head.what_if.length, commands: head.actions.length, text: why && why.text };
  return !(id in known) || Boolean(known[id]);
}

function jump(event, id) {
  event.preventDefault();
  const node = document.getElementById(id);
  if (!node) return;
  const fold = node.querySelector("details");
  if (fold) fold.open = true;
  node.scrollIntoView();
}

const folded = (id, title, body) => h("section", { key: id, id }, h("details", null, h("summary", null, h("h2", { class: "inline" }, title)), body));

/** The panel with the counts, steps, images and pods; null: the object has none of them. */
function howFar(head, live, around) {
  const { row } = head;
  const parts = [hasProgress(row) ? progress(row) : null, steps(part(live, "steps"), row), images(row), head.has_pods ? squares(part(live, "pods"), live, around) : null];
  return parts.some(Boolean) ? h("div", { key: "how-far", class: "panel" }, h("h2", null, "Progress"), parts) : null;
}

const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

function images(row) {
  const was = row.old_images || [];
  const are = (row.images || []).map((image) => (typeof image === "string" ? image : `${image.image}: ${image.phase}${image.phase === "Pulling" ? ` ${image.progress || 0}%` : ""}${image.message ? `: ${image.message}` : ""}`));
  if (!are.length) return null;
  if (was.length) return h("p", { class: "small" }, was.map((image) => [name(image), " "]), "→ ", are.map((image) => [name(image), " "]));
  return h("ul", { class: "small" }, are.map((image) => h("li", { key: image }, broken(image, 1_000))));
}

/** Steps of this OpenKruise Rollout, or of the Rollout of this workload. */
function steps(given, row) {
  if (!given) return null;
  const { rollout, workload, current } = given;
  const isOver = given.phase === "Healthy" || given.state === "Completed";
  const text = (step) => [step.replicas ? (/^\d+$/.test(step.replicas) ? many(Number(step.replicas), "new pod") : `${clean(step.replicas)} of pods`) : "", step.traffic ? `${clean(step.traffic)} of requests` : "", step.has_matches ? "only requests that match the step" : ""].filter(Boolean).join(", ");
  const after = (step) => (step.waits_for_approval ? ", then a person approves" : step.pause_s ? `, then it pauses ${step.pause_s} s` : "");
  return h(
    "div",
    { key: "steps", id: "steps-of-rollout" },
    h("h3", null, given.strategy === "blueGreen" ? "Steps of blue-green" : "Steps of the canary", row.resource === rollout.resource ? null : [": Rollout ", workloadLink(rollout, name(rollout.name))]),
    row.resource === rollout.resource && workload.name
      ? h("p", { class: "small" }, "It rolls out ", broken(workload.kind), " ", workload.resource ? workloadLink(workload, name(workload.name)) : name(workload.name), ". A rollback of this workload ends the canary.")
      : null,
    h(
      "ol",
      { class: "steps" },
      given.steps.map((step) => {
        const isHere = !isOver && step.number === current;
        const phase = isOver || step.number < current ? "Healthy" : isHere ? (given.state === "StepPaused" ? "Paused" : "Progressing") : "";
        return h("li", { key: step.number, class: phase, "aria-current": isHere ? "step" : false }, h("b", null, phase ? icon(phase) : null, ` ${step.number}`), h("span", null, text(step) || "no change of pods or requests", after(step), isHere && given.state ? h("b", null, `: ${clean(given.state)}`) : null));
      }),
    ),
    given.more ? h("p", { class: "small" }, `${many(given.more, "more step is", "more steps are")} not shown`) : null,
    given.message ? h("p", { class: "small" }, sentence(given.message, 2_000)) : null,
  );
}

// ── cause ▸ remedy ▸ command ─────────────────────────────────────────────────

const undoCommand = (head, number) => {
  const undo = head.actions.find((action) => action.id === "undo");
  return undo && number ? undo.command.replace("--to-revision=0", `--to-revision=${number}`) : "";
};

function causes(why, head, phase, live) {
  if (!head.is_explained) return [h("h2", null, "Why"), h("p", null, "explain does not support this kind. See its conditions and events.")];
  if (!why) return [h("h2", null, "Why"), h("p", null, head.row.waits ? sentence(head.row.waits, 2_000) : absent(live, "The reasons are not shown: they name pods, and you may not list pods."))];
  if (why.remark) return [h("h2", null, "Why"), h("p", null, sentence(why.remark, 2_000))];
  const isHeld = why.verdict === "done";
  const waits = (why.waits || []).map((wait, place) => {
    const shown = wait.pods.slice(0, 8);
    const more = wait.count > shown.length ? ` and ${count(wait.count - shown.length)} more` : "";
    return h(
      "li",
      null,
      h("p", { class: "cause" }, coded(wait.code), shown.length ? [shown.map((pod, number) => [number ? ", " : "", name(pod)]), more, ": "] : null, sentence(wait.words, 2_000), wait.since ? [" (for ", when(wait.since), ")"] : null, wait.again ? ["; next try ", clean(wait.again)] : null),
      wait.remedy ? h("p", { class: "remedy" }, sentence(wait.remedy, 2_000)) : null,
      place === 0 && why.rollback_to && wait.remedy && (phase === "Degraded" || phase === "Failed") && undoCommand(head, why.rollback_to) ? command(undoCommand(head, why.rollback_to)) : null,
    );
  });
  const lines = (title, texts) => (texts && texts.length ? [h("h2", null, title), h("ul", { class: "bullets" }, texts.map((text) => h("li", null, sentence(text, 2_000))))] : null);
  return [
    h("h2", null, waits.length ? (isHeld ? "On hold, as configured" : "Waiting for") : "Why"),
    waits.length ? h("ul", { class: "waits" }, waits) : h("p", null, "It waits for nothing."),
    lines("Done", why.done),
    lines("Next", why.next),
  ];
}

// ── pods ─────────────────────────────────────────────────────────────────────

const MANY = 60;

const groupTitle = (group) =>
  `${group.number ? `Revision ${group.number}` : group.revision ? "A revision that is not stored" : ""}${group.revision ? ` (${clean(group.revision)})` : ""}${group.number || group.revision ? `${group.is_newest ? ", new" : ", old"}: ` : ""}${many(group.pods.length + (group.more || 0), "pod")}`;

const podWords = (pod) => `${pod.name}: ${pod.state}, ${pod.ready} ready${pod.node ? `, on ${pod.node}` : ""}${pod.why ? `: ${pod.why}` : ""}${pod.ended ? ` (${pod.ended})` : ""}`;

const SQUARES = 8; // squares that are drawn in the time of one row

/** A square for each pod: colour and mark show its state, hover or focus the reason. Many squares have no marks. */
function squares(pods, live, around) {
  if (!pods) return h("p", { key: "squares" }, absent(live, "Pods are not shown: you may not list them."));
  const isMany = pods.count > MANY;
  let left = around.drawn * SQUARES;
  const groups = groupsOf(pods).map((group) => {
    const shown = group.squares.slice(0, left);
    left -= shown.length;
    return h(
      "div",
      { key: group.revision || "none" },
      h("h3", null, groupTitle(group)),
      h("div", { class: `squares${isMany ? " many" : ""}`, role: "group", "aria-label": groupTitle(group) }, shown.map(({ name: pod, said, look, memo }, place) => lazy(pod, memo, () => square(pod, said, look, isMany, place > 0)))),
      group.more ? h("p", { class: "small" }, `${many(group.more, "more pod is", "more pods are")} not shown`) : null,
    );
  });
  return h(
    "div",
    { key: "squares", "data-squares": "", onkeydown: walk },
    groups,
    pods.count ? h("p", { key: "legend", class: "legend" }, [...looksOf(pods)].map((look) => h("span", { key: look }, h("i", { class: `s-${look}`, "aria-hidden": "true" }), look))) : h("p", null, "No pods."),
    { key: "lasting-detail", memo: true, make: () => h("p", { class: "detail", "aria-live": "polite" }, pods.count ? "Point at a pod, or use the arrow keys, to see its state." : "") },
  );
}

const square = (pod, said, look, isMany, isLater) =>
  h("button", { type: "button", class: `square s-${look}`, "data-pod": pod, "aria-label": said, tabindex: isLater ? "-1" : "0", onclick: showPod }, isMany ? null : h("span", { "aria-hidden": "true" }, iconText(PHASE_OF_LOOK[look])));

const looksOf = (pods) => new Set(pods.groups.flatMap((group) => group.pods.map((pod) => pod.look)));

/** Return a function that computes its result only once for each part that the server sent. */
function once(make) {
  const known = new WeakMap();
  return (given) => {
    if (!known.has(given)) known.set(given, make(given));
    return known.get(given);
  };
}

const groupsOf = once((pods) =>
  pods.groups.map((group) => ({
    ...group,
    squares: group.pods.map((pod, place) => {
      const said = podWords(pod);
      return { name: pod.name, said, look: pod.look, memo: `${pod.look} ${place > 0} ${said}` };
    }),
  })),
);

for (const kind of ["mouseover", "focusin"]) {
  document.addEventListener(kind, (event) => {
    const square = event.target.closest && event.target.closest(".square");
    if (square) square.closest("[data-squares]").querySelector(".detail").textContent = square.getAttribute("aria-label");
  });
}

function walk(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const all = [...event.currentTarget.querySelectorAll(".square")];
  const next = all[all.indexOf(document.activeElement) + step];
  if (next) {
    event.preventDefault();
    next.focus();
  }
}

function showPod(event) {
  const node = document.getElementById(`pod-${event.currentTarget.dataset.pod}`) || document.getElementById("pods");
  if (!node) return;
  const fold = node.querySelector("details");
  if (fold) fold.open = true;
  node.scrollIntoView({ block: "center" });
}

const LISTED = 50;

const isAllListed = (around) => around.query.get("pods") === "all";

/** Number of pods to draw later: while a browser draws a thousand pods at once, it does nothing else. */
function podsLeft(pods, around) {
  const known = pods ? pods.groups.reduce((sum, group) => sum + group.pods.length, 0) : 0;
  return Math.max((isAllListed(around) ? known : Math.min(known, LISTED)) - around.drawn, known - around.drawn * SQUARES, 0);
}

const inOrder = (isPerNode) =>
  once((pods) => {
    const all = pods.groups.flatMap((group) => group.pods.map((pod) => ({ ...pod, number: group.number })));
    all.sort((a, b) => byLook(a, b) || (isPerNode ? compare(a.node || "", b.node || "") : 0) || compare(a.name, b.name));
    return all.map((pod) => ({ pod, memo: JSON.stringify(pod) }));
  });
const ORDERS = { node: inOrder(true), name: inOrder(false) };

function podList(pods, head, around) {
  if (!pods) return null;
  const all = ORDERS[head.is_per_node ? "node" : "name"](pods);
  const listed = isAllListed(around) ? all : all.slice(0, LISTED);
  const shown = listed.slice(0, around.drawn);
  return h(
    "section",
    { key: "pods", id: "pods" },
    h("h2", null, `Pods: ${count(pods.count)}`),
    shown.length ? h("ul", { class: "pods" }, shown.map(({ pod, memo }) => lazy(`${pod.namespace}/${pod.name}`, memo, () => podItem(pod)))) : h("p", null, "No pods."),
    all.length > listed.length ? h("p", null, h("a", { href: address({ pods: "all" }, around.query) }, `Show all ${count(all.length)}`)) : null,
  );
}

function podItem(pod) {
  return h(
    "li",
    { key: `${pod.namespace}/${pod.name}`, id: `pod-${pod.name}` },
    h(
      "div",
      { class: "top" },
      chipOf(PHASE_OF_LOOK[pod.look], pod.state),
      h("b", null, name(pod.name)),
      h("span", { class: "small" }, `${pod.ready} ready`, pod.restarts ? `, ${many(pod.restarts, "restart")}` : "", pod.number ? `, revision ${pod.number}` : "", pod.subset ? `, subset ${clean(pod.subset)}` : "", pod.node ? [", on ", nodeLink(pod.node)] : null, ", ", when(pod.created)),
    ),
    pod.why ? h("p", { class: "cause" }, pod.code ? coded(pod.code) : null, sentence(pod.why, 2_000)) : null,
    pod.ended ? h("p", { class: "small" }, `Container ${clean(pod.container)} ended: ${clean(pod.ended)}`) : null,
    pod.last ? h("pre", null, clean(pod.last, 2_000)) : null,
    h("details", { ontoggle: (event) => event.currentTarget.open && patch(event.currentTarget.querySelector(".commands"), podCommands(pod)) }, h("summary", { class: "small" }, "Log, shell"), lasting("div", "commands")),
  );
}

/** Commands for a pod, created on demand: the commands of a thousand pods would be most of the page. */
function podCommands(pod) {
  const flags = `${pod.name} -n ${pod.namespace}${pod.container ? ` -c ${pod.container}` : ""}`;
  return [
    command(`kubectl logs ${flags}`),
    pod.restarts || pod.ended ? command(`kubectl logs ${flags} --previous`) : null,
    command(`kubectl exec -it ${flags} -- sh`),
    command(`kubectl describe pod ${pod.name} -n ${pod.namespace}`),
  ];
}

function nodes(given) {
  if (!given) return null;
  return h(
    "section",
    { key: "nodes", id: "nodes" },
    h("h2", null, "Nodes"),
    h("ul", { class: "table" }, given.nodes.map((row) => h("li", { key: row.node }, h("b", null, nodeLink(row.node)), h("span", null, chipOf(PHASE_OF_IMAGE[row.phase] || "Progressing", row.phase)), h("span", null, sentence(row.message || "", 2_000)), h("span", { class: "since" }, clean(row.progress))))),
  );
}

function conditions(head) {
  return h(
    "section",
    { key: "conditions", id: "conditions" },
    h("h2", null, "Conditions"),
    head.conditions.length
      ? h("ul", { class: "table" }, head.conditions.map((row) => h("li", { key: row.type }, h("b", null, broken(row.type)), h("span", null, clean(row.status)), h("span", null, row.reason ? (row.message ? coded(row.reason) : h("b", null, broken(row.reason))) : null, sentence(row.message || "", 2_000)), h("span", { class: "since" }, when(row.since)))))
      : h("p", null, "None."),
  );
}

function events(given, { kind, namespace, name: object }, live) {
  if (!given) return h("section", { key: "events", id: "events" }, h("h2", null, "Events"), h("p", null, absent(live, "Events are not shown: you may not list them.")));
  return h(
    "section",
    { key: "events", id: "events" },
    h("h2", null, "Events, the newest first"),
    given.problem ? h("p", { class: "note" }, `The events could not be read: ${clean(given.problem, 1_000)}`) : null,
    given.events.length
      ? h("ol", { class: "timeline" }, given.events.map((row) => h("li", { class: row.type }, h("span", { class: "since" }, when(row.last)), h("span", null, row.type === "Warning" ? h("span", { class: "unseen" }, "Warning: ") : null, coded(row.reason), sentence(row.message, 2_000), row.count > 1 ? h("span", { class: "small" }, ` (${many(row.count, "time")})`) : null))))
      : given.problem
        ? null
        : h("p", null, "There are no events. By default, the API server keeps events for one hour."),
    given.more ? [h("p", { class: "small" }, `${many(given.more, "more event is", "more events are")} not shown:`), command(`kubectl get events -n ${namespace || "default"} --field-selector involvedObject.name=${object},involvedObject.kind=${kind}`)] : null,
  );
}

function history(given, head) {
  if (!given) return null;
  return h(
    "section",
    { key: "history", id: "history" },
    h("h2", null, "Revisions"),
    given.revisions.map((row) =>
      h(
        "details",
        { key: row.name, open: row.is_newest },
        h("summary", null, h("h3", { class: "inline" }, `Revision ${row.number}${row.is_newest ? ", the newest" : ""}`), row.cause ? ` ${clean(row.cause)}` : "", " ", when(row.created)),
        (row.changes || []).length ? h("ul", { class: "changes" }, row.changes.map((text) => h("li", null, h("code", null, sentence(text, 2_000))))) : h("p", { class: "small" }, "This is the first stored revision, or it does not differ from the previous one."),
        row.is_newest ? null : command(undoCommand(head, row.number) || `kubectl kruise rollout history ${head.row.resource}/${head.row.name} --revision=${row.number}`),
      ),
    ),
  );
}

// ── what if ──────────────────────────────────────────────────────────────────

function whatIf(head) {
  const { row } = head;
  const submit = async (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const sets = {};
    for (const field of form.querySelectorAll("input[name]")) {
      if (field.value && field.value !== field.dataset.now) sets[field.name] = field.value;
    }
    await answered(form, form.querySelector("output"), async () => {
      const given = await ask("plan", { kind: row.resource, namespace: row.namespace, name: row.name, sets });
      return [
        printed(given.lines),
        given.chart ? h("img", { class: "chart", src: given.chart, alt: given.chart_text.join("\n") }) : null,
        command(given.command),
      ];
    });
  };
  const fields = head.what_if.map(([key, label, now]) =>
    h("label", { key, class: wide(now) }, clean(label), h("input", { name: key, placeholder: clean(now) || "not set", "data-now": now, autocomplete: "off", spellcheck: "false" })),
  );
  return h(
    "section",
    { key: "what-if", id: "what-if" },
    h("h2", null, "What if?"),
    h("p", null, "Change a field to preview the rollout. The page shows the output of plan, and a simulation that starts with the present pods. Nothing is written."),
    h("form", { onsubmit: submit, class: "box" }, h("div", { class: "fields" }, fields), h("button", { type: "submit" }, "Show what would happen"), lasting("output")),
  );
}

/** The class of a field: wide if its value does not fit into a short field. */
const wide = (value) => (String(value ?? "").length > 16 ? "wide" : "");

/** An element whose content is not part of the drawing: it stays unchanged while the page is drawn again. */
const lasting = (tag, name = "") => ({ key: `lasting-${tag}`, memo: true, make: () => h(tag, name ? { class: name } : { "aria-live": "polite" }) });

async function answered(form, out, work) {
  const buttons = form.querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  patch(out, [h("p", null, "Working …")]);
  try {
    patch(out, await work());
  } catch (error) {
    patch(out, [h("p", { class: "error" }, clean(error.message, 2_000))]);
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

// ── commands and actions ─────────────────────────────────────────────────────

function commands(head) {
  if (!head.actions.length) return null;
  return h(
    "section",
    { key: "commands", id: "commands" },
    h("details", null, h("summary", null, h("h2", { class: "inline" }, "Commands")), head.actions.map((action) => h("div", { key: action.id }, h("h3", null, clean(action.title)), command(action.command)))),
  );
}

const may = new Map();

function actionRow(head, live, around) {
  if (!around.session.has_actions || !head.actions.length) return null;
  if (!allowed(head.row, around)) return h("p", { key: "actions", class: "small" }, "There are no buttons: you may not change this object, or your permissions are not known yet.");
  const buttons = head.actions.map((action) => h("button", { key: action.id, type: "button", onclick: () => askFirst(action, head, live) }, `${clean(action.title)} …`));
  return foldedOnPhone("actions", "Actions", h("div", { id: "actions", class: "actions", role: "group", "aria-label": "Actions" }, buttons));
}

/** The question before an action: values, what would change, what would happen; nothing is written before the last button. */
function askFirst(action, head, live) {
  const { row } = head;
  const past = part(live, "history");
  const why = part(live, "explained");
  const best = why && why.rollback_to ? String(why.rollback_to) : "";
  dialog(action.title, (node) => {
    let question = null;
    let values = {};
    const about = () => ({ kind: row.resource, namespace: row.namespace, name: row.name, action: action.id, values });
    const draw = (state) => patch(node, [
      h("h2", { key: "title" }, `${clean(action.title)}: ${row.kind} ${clean(row.name)}`),
      h(
        "form",
        { key: "form", onsubmit: look },
        h("div", { class: "fields" }, (action.fields || []).map((field) => fieldOf(field, past, best, () => { question = null; draw(""); }))),
        h("div", { class: "actions" }, h("button", { key: "look", type: "submit", class: question ? "" : "primary" }, "Show what would change"), h("button", { key: "cancel", type: "button", onclick: () => node.close() }, "Cancel")),
      ),
      state ? h("p", { key: "state", role: "status", class: state.isError ? "error" : "" }, clean(state.text || state, 4_000)) : null,
      question ? answer() : null,
    ]);
    const answer = () => h(
      "div",
      { key: "answer", class: "answer" },
      question.code ? h("p", { class: "error" }, clean(question.said, 4_000)) : null,
      h("h3", null, question.diff.length ? "It would change" : "It would change nothing"),
      h("div", { class: "diff" }, question.diff.map((text) => h("code", null, sentence(text, 1_000)))),
      question.plan.length ? [h("h3", null, `What would happen (${many(question.pods, "pod")})`), printed(question.plan)] : null,
      command(question.command),
      question.ticket
        ? h(
            "form",
            { onsubmit: act, class: "confirm" },
            question.needs_name ? h("label", null, `It has ${many(question.pods, "pod")}. To confirm, type its name: ${clean(row.name)}`, h("input", { name: "typed", autocomplete: "off", spellcheck: "false", oninput: (event) => (event.currentTarget.form.querySelector("button").disabled = event.currentTarget.value !== row.name) })) : null,
            h("div", { class: "actions" }, h("button", { type: "submit", class: "primary", disabled: question.needs_name }, `Do it: ${clean(action.title)}`)),
          )
        : null,
    );
    async function look(event) {
      event.preventDefault();
      values = Object.fromEntries([...node.querySelectorAll("[data-field]")].map((field) => [field.name, field.value]));
      question = null;
      draw("Computing what would change …");
      try {
        question = await ask("question", about());
        draw("");
      } catch (error) {
        draw({ text: error.message, isError: true });
      }
    }
    async function act(event) {
      event.preventDefault();
      const typed = event.currentTarget.querySelector("[name=typed]");
      try {
        const given = await ask("act", { ...about(), ticket: question.ticket, typed: typed ? typed.value : "" });
        question = null;
        draw({ text: given.said || "done", isError: Boolean(given.code) });
        const cancel = node.querySelector("button[type=button]");
        cancel.textContent = "Close";
        cancel.focus();
      } catch (error) {
        question = null;
        draw({ text: error.message, isError: true });
      }
    }
    draw("");
  });
}

function fieldOf(field, past, best, changed) {
  if (!field.is_revision) return h("label", { key: field.name, class: wide(field.value) }, clean(field.label), h("input", { name: field.name, "data-field": "", value: field.value, autocomplete: "off", spellcheck: "false", required: true, oninput: changed }));
  const listed = past ? past.revisions.filter((row) => !row.is_newest) : [];
  return h(
    "label",
    { key: field.name },
    clean(field.label),
    h(
      "select",
      { name: field.name, "data-field": "", required: true, onchange: changed },
      best ? null : h("option", { value: "" }, "choose a revision"),
      listed.map((row) => h("option", { key: row.number, value: String(row.number), selected: String(row.number) === best }, `${row.number}${String(row.number) === best ? ": recommended" : ""}${row.cause ? `: ${clean(row.cause, 60)}` : ""}`)),
    ),
  );
}

/** Whether the API server lets this user change the object; asked once a minute, and the page is drawn again then. */
function allowed(row, around) {
  const known = may.get(row.id);
  if (!known || Date.now() - known.at > 60_000) {
    may.set(row.id, { at: Date.now(), is: known ? known.is : false });
    ask("rights", { kind: row.resource, namespace: row.namespace, name: row.name })
      .then((answer) => may.set(row.id, { at: Date.now(), is: answer.may }))
      .catch(() => may.set(row.id, { at: Date.now(), is: false }))
      .finally(around.redraw);
  }
  return may.get(row.id).is;
}
