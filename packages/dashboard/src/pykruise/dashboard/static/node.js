// The page of one node: its agent, its images, its probes, and its pods of workloads.

import { h, lazy } from "./dom.js";
import { PHASE_OF_IMAGE, PHASE_OF_LOOK, absent, address, broken, byLook, chip, chipOf, coded, command, copyText, name, sentence, when, workloadLink } from "./parts.js";
import { compare } from "./table.js";
import { clean, many, titleLine } from "./words.js";

const AGENT = {
  silent: ["Degraded", "The agent does not respond: it pulls no image and runs no probe."],
  answers: ["Healthy", "The agent responds."],
  asked: ["Progressing", "Jobs requested images, and the agent has not responded yet."],
  idle: ["Paused", "No job requests an image, so the agent has nothing to report."],
};
const PROBES = { Succeeded: "Healthy", Failed: "Failed" };

export function node(live, around) {
  const title = `Node ${clean(around.query.get("name"))}`;
  const part = (id) => live.rows.get(id);
  const [own, images, probes, agent, remark] = ["node", "images", "probes", "agent", "remark"].map(part);
  const pods = [...live.rows]
    .filter(([id]) => id.startsWith("pods/"))
    .flatMap(([, row]) => row.pods)
    .sort((a, b) => byLook(a, b) || compare(a.namespace, b.namespace) || compare(a.name, b.name));
  if (!own && !images && !probes && !pods.length) {
    const said = remark ? clean(remark.text, 1_000) : absent(live, "there is no such node, or you may not see it");
    return { title, summary: "", left: 0, body: [h("p", null, said.slice(0, 1).toUpperCase(), said.slice(1)), h("p", null, h("a", { href: address({ page: "jobs" }) }, "Jobs and images"))] };
  }
  const isBad = Boolean((own && !own.is_ready) || (images && images.agent === "silent"));
  const phase = isBad ? "Degraded" : own ? "Healthy" : "Paused";
  return {
    title,
    heading: ["Node ", name(around.query.get("name"))],
    chip: own || isBad ? chip(phase) : null,
    summary: "",
    spoken: `${title}: ${phase}`,
    count: isBad ? 1 : 0,
    left: 0,
    tools: copyText(() => asText(around, own, images, pods)),
    body: [
      h(
        "div",
        { key: "columns", class: "columns" },
        h("div", { key: "own", class: "panel" }, h("h2", null, "Kubernetes"), ownPart(own, live), command(`kubectl describe node ${around.query.get("name")}`), command(`kubectl cordon ${around.query.get("name")}`)),
        h("div", { key: "agent", class: "panel" }, h("h2", null, "Agent"), agentPart(images, agent, live)),
      ),
      imageList(images),
      probeList(probes),
      podList(pods, live),
    ],
  };
}

function ownPart(own, live) {
  if (!own) return h("p", null, absent(live, "The node itself is not shown: it is deleted, or you may not list nodes."));
  return [
    h("p", null, chipOf(own.is_ready ? "Healthy" : "Degraded", own.is_ready ? "Ready" : "Not ready"), own.is_cordoned ? [" ", chipOf("Paused", "Cordoned")] : null, (own.pressures || []).map((text) => [" ", chipOf("Degraded", text)])),
    own.ready_since ? h("p", { class: "small" }, "for ", when(own.ready_since)) : null,
    own.message ? h("p", null, sentence(own.message, 2_000)) : null,
  ];
}

function agentPart(images, agent, live) {
  if (!images && !agent && !live.isSynced) return h("p", null, absent(live, ""));
  const [phase, said] = AGENT[images ? images.agent : ""] || ["Paused", "It is unknown whether the agent responds: no images of the node are recorded, or you may not list them."];
  const own = agent ? agent.pods : [];
  return [
    h("p", null, chipOf(phase, images ? images.agent : "unknown"), " ", said),
    own.length
      ? own.map((pod) => [
          h("p", { key: pod.name }, chipOf(PHASE_OF_LOOK[pod.look], pod.state), " ", h("b", null, name(pod.name)), h("span", { class: "small" }, ` ${pod.ready} ready`, pod.restarts ? `, ${many(pod.restarts, "restart")}` : "")),
          command(`kubectl logs ${pod.name} -n ${pod.namespace}`),
        ])
      : h("p", { class: "small" }, agent ? "The agent has no pod on this node." : "The agent's pod is not shown: you may not list pods there."),
  ];
}

const section = (id, title, body) => h("section", { key: id, id, "aria-label": title }, h("h2", null, title), body);
const more = (given) => (given.more ? h("p", { class: "small" }, `${many(given.more, "more is", "more are")} not shown`) : null);

function imageList(given) {
  if (!given) return null;
  const row = (one) =>
    h(
      "li",
      { key: one.image },
      chipOf(PHASE_OF_IMAGE[one.phase] || (one.needs_a_person ? "Degraded" : "Progressing"), one.phase === "Pulling" ? `Pulling ${one.progress || 0}%` : one.phase),
      h("b", null, name(one.image)),
      h("div", null, one.why ? [coded(one.code), sentence(one.why, 2_000)] : sentence(one.message || "", 2_000), one.remedy ? h("p", { class: "remedy" }, sentence(one.remedy, 2_000)) : null),
    );
  return section("images", `Images: ${given.images.length}`, [given.problem ? h("p", { class: "note" }, clean(given.problem, 1_000)) : null, given.images.length ? h("ul", { class: "table of-node" }, given.images.map(row)) : h("p", null, "No job requests an image on this node."), more(given)]);
}

function probeList(given) {
  if (!given) return null;
  const row = (one) =>
    h(
      "li",
      { key: `${one.namespace}/${one.pod}/${one.probe}` },
      chipOf(PROBES[one.state] || "Paused", one.state || "No result yet"),
      h("b", null, name(`${one.namespace}/${one.pod}`)),
      h("div", null, broken(one.probe.replace("#", " # ")), h("span", { class: "small" }, `, container ${clean(one.container)}`, one.since ? [", for ", when(one.since)] : null), one.message ? h("p", { class: "cause" }, sentence(one.message, 2_000)) : null),
    );
  return section("probes", `Probes: ${given.probes.length}`, [given.probes.length ? h("ul", { class: "table of-node" }, given.probes.map(row)) : h("p", null, "No probe is requested on this node."), more(given)]);
}

function podList(pods, live) {
  const row = (pod) =>
    h(
      "li",
      { key: `${pod.namespace}/${pod.name}` },
      chipOf(PHASE_OF_LOOK[pod.look], pod.state),
      h("b", null, name(`${pod.namespace}/${pod.name}`)),
      h("div", null, broken(pod.owner_kind), " ", workloadLink({ resource: pod.owner_resource, namespace: pod.namespace, name: pod.owner }, name(pod.owner)), h("span", { class: "small" }, `, ${pod.ready} ready`, pod.restarts ? `, ${many(pod.restarts, "restart")}` : ""), pod.why ? h("p", { class: "cause" }, pod.code ? coded(pod.code) : null, sentence(pod.why, 2_000)) : null),
    );
  return section("pods", `Pods of workloads: ${pods.length}`, pods.length ? h("ul", { class: "table of-node" }, pods.map((pod) => lazy(`${pod.namespace}/${pod.name}`, JSON.stringify(pod), () => row(pod)))) : h("p", null, absent(live, "No pod of a workload that you may see runs here.")));
}

function asText(around, own, images, pods) {
  const lines = [titleLine(`Node ${around.query.get("name")}`, around.session.cluster), own ? `${own.is_ready ? "Ready" : "Not ready"}${own.is_cordoned ? ", cordoned" : ""}${own.message ? `: ${own.message}` : ""}` : "", images ? AGENT[images.agent][1] : ""];
  for (const one of images ? images.images : []) if (one.why) lines.push(`image ${one.image}: ${one.code}: ${one.why}`);
  for (const pod of pods.filter((item) => item.why)) lines.push(`${pod.namespace}/${pod.name}: ${pod.code ? `${pod.code}: ` : ""}${pod.why}`);
  return lines.filter(Boolean).join("\n");
}
