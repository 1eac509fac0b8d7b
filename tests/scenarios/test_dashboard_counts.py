"""Every text of the dashboard with a number: 0, 1 and 2 of each thing, drawn by the page's own functions in a browser.

rows in which every number is the same ──functions of static/*.js──▶ texts ──▶ a number and a noun that do not agree
coverage of the browser ──▶ each call of many() and count() has drawn something, so that a new one has to be drawn here
"""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

import pykruise.dashboard
from support.browser import Browser, browsing

pytestmark = [
    pytest.mark.browser,
    pytest.mark.sandbox_only,
    pytest.mark.real_time,
    pytest.mark.timeout(200),
]

STATIC: Final = Path(pykruise.dashboard.__file__).parent / "static"
LANGUAGE: Final = "words.js"
"""Has the functions themselves."""
NUMBERS: Final = (0, 1, 2)
NOT_OF_ONE: Final = frozenset({"time"})
"""Nouns that the page counts only from two on: an event that happened once has no number."""
CALL: Final = re.compile(r"(?<![.\w])(?:many|count)\((?!row, by\))")
NOUNS: Final = re.compile(r"(?<![.\w])many\([^\"]*\"([a-zA-Z ]+)\"(?:, \"([a-zA-Z ]+)\")?\)")


class Handler(SimpleHTTPRequestHandler):
    """Serves the modules, and an empty page with their style, which puts parts of a text on lines of their own."""

    def do_GET(self) -> None:
        if self.path != "/":
            return super().do_GET()
        body = (
            b"<!doctype html><meta charset=utf-8><title>texts</title>"
            b"<link rel=stylesheet href=style.css><main></main>"
        )
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def serving_modules() -> Iterator[str]:
    """Serve the modules from their folder; yields their address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(STATIC))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


DRAW: Final = r"""
const [number, done] = arguments;
const modules = ["dom", "overview", "lists", "workload", "node"].map((name) => import(`/${name}.js`));
const fill = (most, make) => Array.from({ length: most }, (_, place) => make(place));
const time = new Date(Date.now() - 60_000).toISOString();
const row = (id, more) => ({
  id, resource: "clonesets.apps.kruise.io", kind: "CloneSet", namespace: "shop", name: id, phase: "Degraded",
  needs_action: true, line: "", since: time, code: "ImagePull", waits: "it waits", ...more,
});
const why = (of, more) => ({
  id: `why/${of}`, of, phase: "Degraded", code: "ImagePull", words: "it waits", remedy: "mend it", pods: ["a"],
  count: 1 + number, since: time, codes: ["ImagePull"], part_codes: ["ImagePull"], ...more,
});
const live = (rows) => ({
  rows: new Map(rows.map((item) => [item.id, item])), news: new Set(), isSynced: true, status: {}, refusal: "",
});
const around = (search = "") => ({
  query: new URLSearchParams(search), go() {}, redraw() {}, drawn: 5_000,
  session: { cluster: "here", user: "me", has_actions: true },
});
const pod = (place, more) => ({
  name: `pod-${place}`, namespace: "shop", state: "Running", ready: `${number}/${number}`, node: "node-a",
  created: time, restarts: number, look: "ready", ...more,
});

/** Pages of lists: objects that need action, that progress and that are settled, and the parts of one cause. */
const lists = ({ overview, lists }) => {
  const counts = { desired: number, updated: number, ready: number, kept: number };
  const jobs = { begun: time, desired: number, succeeded: number, active: number, failed: number };
  const parent = (id, kind, parts) => [
    row(id, { ...counts, kind: "UnitedDeployment" }), why(id),
    ...fill(parts, (place) => row(`${id}-${place}`, { ...counts, kind, owner_kind: "UnitedDeployment", owner: id })),
    ...fill(parts, (place) => why(`${id}-${place}`)),
  ];
  const of = (phase) =>
    fill(number, (place) => row(`${phase}-${place}`, { phase, needs_action: false, code: "", ...counts }));
  const every = [
    ...parent("one", "CloneSet", number), ...parent("many", "DaemonSet", 100 + number),
    ...of("Progressing"), ...of("Healthy"),
    ...fill(number, (place) => row(`other-${place}`, { ...counts, namespace: "other", phase: "Failed" })),
  ];
  const alike = (place) => ({
    id: `pods/${place}`, namespace: "shop", name: `pod-${place}`, code: "ImagePull", words: "it waits",
    state: "Pending", restarts: number, needs_a_person: true, owner_kind: "CloneSet", owner: "web", since: time,
  });
  return [
    overview.rollouts(live(every), around()), overview.rollouts(live(every), around("?group=owner")),
    overview.rollouts(live(every), around("?group=namespace")), overview.rollouts(live([]), around()),
    overview.rollouts(live(fill(100 + number, (place) => row(`long-${place}`))), around("?from=100")),
    overview.jobs(live(fill(number, (place) => row(`job-${place}`, jobs))), around()),
    lists.pods(live(fill(number, (place) => ({ ...alike(place), code: `Cause${place}` }))), around()),
    lists.pods(live(fill(3 + number, alike)), around()),
    lists.health(live([
      { id: "manager/a", manager: "a", state: "Running", ready: "1/1", restarts: number, leads: true, renewed: time },
      { id: "finding/ok", check: "crds", level: "ok", what: "" },
      ...fill(number, (place) => ({ id: `finding/${place}`, check: "pods", level: "fault", what: "bad" })),
    ])),
  ];
};

/** Pages of one object and of one node. */
const objects = ({ workload, node }) => {
  const head = {
    id: "head", conditions: [], what_if: [["replicas", "replicas", "1"]], has_pods: true, is_explained: true, yaml: "a",
    row: row("web", { desired: number, updated: number, ready: number, kept: number }),
    actions: [{ id: "scale", title: "Scale", command: "kubectl kruise scale", fields: [] }],
  };
  const wait = { code: "A", words: "it waits", pods: fill(8, String), count: 8 + number, since: time };
  const steps = [{ number: 1, replicas: String(number) }, { number: 2, replicas: "10%", pause_s: number }];
  const parts = (groups, count) => [
    head,
    { id: "explained", verdict: "waiting", phase: "Degraded", headline: "it waits", waits: [wait] },
    { id: "pods", count, groups },
    { id: "steps", rollout: { resource: "r", name: "a" }, workload: {}, current: 1, steps, more: number },
    { id: "events", events: [{ reason: "A", message: "b", count: number, last: time }], more: number },
    { id: "history", revisions: [{ number, name: "a", changes: [], is_newest: true }] },
  ];
  const group = (more) => ({
    revision: "abc", number, is_newest: true, pods: fill(number, pod), more: number, ...more,
  });
  const object = "?page=workload&kind=clonesets.apps.kruise.io&namespace=shop&name=web";
  const many = fill(50 + number, pod);
  const image = (place) => ({ image: `a:${place}`, phase: "Pulling", progress: number });
  return [
    workload.workload(live(parts([group()], number)), around(object)),
    workload.workload(live(parts([group({ revision: "", number: 0, more: 0 })], number)), around(object)),
    workload.workload(live(parts([group({ pods: many, more: 0 })], many.length)), around(object)),
    node.node(live([
      { id: "node", is_ready: true, ready_since: time, pressures: [] },
      { id: "images", agent: "answers", images: fill(number, image), more: number },
      { id: "probes", probes: [], more: number },
      { id: "agent", pods: [pod(0)] },
      { id: "pods/shop", pods: fill(number, (place) => pod(place, { owner_kind: "CloneSet", owner: "web" })) },
    ]), around("?page=node&name=node-a")),
  ];
};

const said = [];
const words = (element) => {
  for (const fold of element.querySelectorAll("details")) fold.open = true;
  const named = [...element.querySelectorAll("[aria-label], [title]")];
  said.push(element.innerText, ...named.map((item) => `${item.ariaLabel || ""}\n${item.title}`));
};
const soon = () => new Promise((resolve) => setTimeout(resolve, 20));
const answers = {
  rights: { may: true },
  question: { code: 0, said: "", diff: ["a"], plan: ["b"], pods: number, needs_name: true, ticket: "t", command: "c" },
};
window.fetch = async (url) => new Response(JSON.stringify(answers[url.replace("api/", "")] || {}));
const clipboard = { writeText: async (text) => said.push(text) };
Object.defineProperty(navigator, "clipboard", { configurable: true, value: clipboard });

Promise.all(modules).then(async ([dom, overview, listed, workload, node]) => {
  const make = () => [...lists({ overview, lists: listed }), ...objects({ workload, node })];
  make();
  await soon(); // the rights of the user are known
  for (const page of make()) {
    const place = document.createElement("div");
    document.querySelector("main").replaceChildren(place);
    const shown = [page.title, page.summary, page.spoken, page.tools, page.body];
    dom.patch(place, shown.map((part) => dom.h("div", null, part)));
    words(place);
    for (const button of place.querySelectorAll("button")) {
      if (button.innerText === "Copy as text") button.click();
      if (!button.innerText.startsWith("Scale")) continue;
      button.click();
      document.querySelector("dialog form").requestSubmit();
      await soon();
      words(document.querySelector("dialog"));
      document.querySelector("dialog").close();
    }
    await soon();
  }
  done(said);
}).catch((error) => done([`failed: ${error.stack}`]));
"""


class Coverage:
    """Return the parts of the scripts that have run."""

    def __init__(self, browser: Browser) -> None:
        self._do = browser.driver.execute_cdp_cmd
        self._do("Profiler.enable", {})
        self._do("Profiler.startPreciseCoverage", {"callCount": True, "detailed": True})

    def find_calls_that_did_not_run(self) -> list[str]:
        """Each call of many() or count() in a module that was not reached."""
        scripts = {
            script["url"].rpartition("/")[2]: [
                span for part in script["functions"] for span in part["ranges"]
            ]
            for script in self._do("Profiler.takePreciseCoverage", {})["result"]
        }
        calls = []
        for path in sorted(STATIC.glob("*.js")):
            text = path.read_text("utf-8")
            for match in CALL.finditer(text) if path.name != LANGUAGE else ():
                if not _has_run(scripts.get(path.name, ()), match.start()):
                    line = text.count("\n", 0, match.start()) + 1
                    calls.append(f"{path.name}:{line}: {text[match.start() : match.start() + 60]}")
        return calls


def _has_run(spans: Sequence[dict[str, int]], place: int) -> bool:
    """Whether the innermost span that has the place was run."""
    around = [span for span in spans if span["startOffset"] <= place < span["endOffset"]]
    innermost = min(around, key=lambda span: span["endOffset"] - span["startOffset"], default={"count": 0})
    return innermost["count"] > 0


def list_nouns() -> dict[str, str]:
    """The plural of each noun that a module counts."""
    texts = (path.read_text("utf-8") for path in STATIC.glob("*.js"))
    return {match[1]: match[2] or f"{match[1]}s" for text in texts for match in NOUNS.finditer(text)}


def find_disagreements(texts: Sequence[str], nouns: dict[str, str]) -> set[str]:
    """Each `1 pods`, `0 pod` or `2 pod` of these texts."""
    nouns = {**nouns, "pod": "pods", "object": "objects", "CloneSet": "CloneSets", "DaemonSet": "DaemonSets"}
    singular = "|".join(map(re.escape, sorted(nouns, key=len, reverse=True)))
    plural = "|".join(map(re.escape, sorted(nouns.values(), key=len, reverse=True)))
    wrong = re.compile(
        rf"(?<![\w.,/:])(?:1 (?:more )?(?:{plural})|(?:0|[2-9]|\d\d+) (?:more )?(?:{singular}))(?!\w)"
    )
    return {match[0] for text in texts for match in wrong.finditer(text)}


@pytest.fixture(scope="module")
def drawn() -> Iterator[tuple[dict[int, list[str]], list[str]]]:
    """The texts by number, and calls that drew none."""
    with serving_modules() as url, browsing() as browser:
        browser.open(url)
        coverage = Coverage(browser)
        texts = {number: browser.run_async(DRAW, number) for number in NUMBERS}
        yield texts, coverage.find_calls_that_did_not_run()


Drawn = tuple[dict[int, list[str]], list[str]]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_and_its_noun_agree_in_every_text(drawn: Drawn, number: int) -> None:
    texts = drawn[0][number]
    assert not [text for text in texts if text.startswith("failed: ")]
    assert find_disagreements(texts, list_nouns()) == set()


def test_every_text_with_a_number_was_drawn(drawn: Drawn) -> None:
    assert drawn[1] == []


def test_texts_of_one_and_of_two_differ(drawn: Drawn) -> None:
    """The texts contain each noun that the modules count, so the comparison is complete."""
    text_of_one, text_of_two = ("\n".join(drawn[0][number]) for number in (1, 2))
    for noun, plural in list_nouns().items():
        assert noun in NOT_OF_ONE or re.search(rf"(?<!\w)1 {noun}(?!\w)", text_of_one), noun
        assert re.search(rf"(?<!\w)2 {plural}(?!\w)", text_of_two), plural


@pytest.mark.parametrize(
    "text", ["1 pods", "and 1 more pods", "0 pod", "12 cause, so", "2 more pod is not shown"]
)
def test_such_a_text_is_noticed(text: str) -> None:
    assert find_disagreements([text], list_nouns())


@pytest.mark.parametrize("text", ["1 pod", "0 pods", "21 pods", "v1.1 pods", "1/1 pods", "2 podiums"])
def test_such_a_text_is_right(text: str) -> None:
    assert not find_disagreements([text], list_nouns())
