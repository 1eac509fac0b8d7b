// Requests to the server, and the stream of rows. All addresses are relative: a proxy may serve the page at any path.

/** Return the server's response. For an error response, throws an Error with its message, and its HTTP status in .status. */
export async function ask(path, body) {
  const given = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const answer = await fetch(`api/${path}`, {
    ...given,
    headers: { "x-pykruise-dashboard": "1", "content-type": "application/json" },
    credentials: "same-origin",
  });
  const found = await answer.json().catch(() => ({}));
  if (answer.ok) return found;
  throw Object.assign(new Error(found.error || `the server responds with status ${answer.status}`), { status: answer.status });
}

const SILENT_MS = 40_000;
const REFUSED_MS = 30_000;

/** The reason that the server rejects a stream, which an EventSource does not report; empty: it is not rejected. */
async function refusalOf(path) {
  const stop = new AbortController();
  try {
    const answer = await fetch(`api/${path}`, { headers: { "x-pykruise-dashboard": "1" }, credentials: "same-origin", signal: stop.signal });
    return answer.ok ? "" : (await answer.json()).error || `the server responds with status ${answer.status}`;
  } catch {
    return "";
  } finally {
    stop.abort();
  }
}

/**
 * Rows of a page, live: a Map by id, in `rows`. `changed()` is called when there is something new, `lost()` when the
 * server asks for a login. The stream is closed while the tab is hidden; when the tab is shown, the missed rows arrive.
 */
export class Live {
  constructor(query, { changed, lost }) {
    this.rows = new Map();
    this.news = new Set(); // ids of new, changed and removed rows; the code that draws them empties this set
    this.status = { is_read: false, problems: [] };
    this.hasStatus = false;
    this.isSynced = false; // whether all rows have arrived, so that a page may report missing objects
    this.isConnected = false;
    this.version = 0;
    this.query = query;
    this.changed = changed;
    this.lost = lost;
    this.fresh = null; // rows that arrive after a reset, until all have arrived
    this.refusal = ""; // why the server does not send the page; empty: it does
    this.last = "";
    this.seen = () => (document.hidden ? this.stop() : this.start());
    document.addEventListener("visibilitychange", this.seen);
    if (!document.hidden) this.start();
  }

  start() {
    if (this.source) return;
    const query = new URLSearchParams(this.query);
    const source = (this.source = new EventSource(`api/stream?${query}`));
    const on = (name, take) =>
      source.addEventListener(name, (event) => {
        this.heard = Date.now();
        this.isConnected = true;
        this.refusal = "";
        take(JSON.parse(event.data), event);
      });
    on("reset", () => (this.fresh = new Map()));
    on("rows", (rows) => {
      const into = this.fresh || this.rows;
      for (const row of rows) {
        into.set(row.id, row);
        this.news.add(row.id);
      }
      if (this.fresh && !this.isSynced) this.show(this.fresh);
      else if (!this.fresh) this.show(this.rows);
    });
    on("gone", (ids) => {
      for (const id of ids) {
        (this.fresh || this.rows).delete(id);
        this.news.add(id);
      }
      this.show(this.rows);
    });
    on("synced", () => {
      this.isSynced = true;
      this.show(this.fresh || this.rows);
      this.fresh = null;
    });
    on("status", (status) => {
      this.status = status;
      this.hasStatus = true;
      this.changed();
    });
    on("heartbeat", () => this.changed());
    source.onerror = () => this.fail(source);
    this.watch = setInterval(() => Date.now() - this.heard > SILENT_MS && this.again(), 5_000);
    this.heard = Date.now();
  }

  show(rows) {
    this.rows = rows;
    this.version += 1;
    this.changed();
  }

  /** A rejection closes an EventSource permanently. An EventSource reopens a lost connection automatically. */
  async fail(source) {
    if (source !== this.source) return;
    this.isConnected = false;
    this.changed();
    if (source.readyState !== EventSource.CLOSED) return;
    this.stop();
    try {
      await ask("session");
    } catch (error) {
      if (error.status === 401) return this.lost();
    }
    this.refusal = await refusalOf(`stream?${new URLSearchParams(this.query)}`);
    if (this.refusal) this.changed();
    this.timer = setTimeout(() => this.start(), this.refusal ? REFUSED_MS : 2_000);
  }

  again() {
    this.stop();
    this.start();
  }

  stop() {
    clearInterval(this.watch);
    clearTimeout(this.timer);
    if (this.source) this.source.close();
    this.source = null;
  }

  close() {
    document.removeEventListener("visibilitychange", this.seen);
    this.stop();
  }
}
