// Rows of a stream as a page shows them: joined, filtered, in order and counted.
// what changed in the stream ──▶ Table: out of the old place, into the new one ──▶ rows, counts      A change costs a
// search in the order and does not read all rows. Only another filter or order reads all of them.

export const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

const tables = new WeakMap(); // of a stream: the table that its page shows

/**
 * The table of a stream, up to date. `view`: `key` (another key: another table), `join(rows, id)` makes a row or none,
 * `of(id)` names the row that an id of the stream is about, `test(row)` is the filter, `isListed(row)` narrows the
 * list but not the counts, `order(a, b)` compares. All of them are pure.
 */
export function tableOf(live, view) {
  let table = tables.get(live);
  if (!table || table.view.key !== view.key || table.source !== live.rows) {
    table = new Table(live.rows, view);
    tables.set(live, table);
  } else table.take(live.news);
  live.news.clear();
  return table;
}

/** Number of rows for each value. */
class Tally extends Map {
  add(value, by) {
    if (value === "" || value === undefined) return;
    const now = (this.get(value) || 0) + by;
    if (now) this.set(value, now);
    else this.delete(value);
  }

  names() {
    return [...this.keys()].sort(compare);
  }
}

/** Whether the cause of an object is also one of the causes of its parent. */
const isSameCause = (row, parent) =>
  Boolean(parent.needs_action && row.why && parent.why) && (row.why.part_codes || []).some((code) => (parent.why.codes || []).includes(code));

const nameOf = (kind, namespace, name) => `${kind} ${namespace}/${name}`;

export class Table {
  constructor(source, view) {
    this.source = source;
    this.view = view;
    this.order = (a, b) => view.order(a, b) || compare(a.id, b.id);
    this.all = new Map(); // rows by id
    this.listed = []; // rows of the list, in order
    this.byName = new Map(); // rows by kind, namespace and name
    this.owners = new Tally(); // names that rows give as their owner
    this.present = { namespace: new Tally(), kind: new Tally(), code: new Tally() }; // of all rows
    this.counts = new Tally(); // of the rows that the filter keeps, by phase
    this.spaces = new Map(); // ... by namespace: a Tally by phase
    this.kept = 0; // ... how many
    this.needing = new Map(); // of all rows: those that need action, by id
    for (const id of source.keys()) if (view.of(id) === id) this.count(view.join(source, id), 1);
    this.listed.sort(this.order);
    this.isBuilt = true;
  }

  take(ids) {
    for (const id of new Set([...ids].map(this.view.of))) {
      const old = this.all.get(id);
      const now = this.source.has(id) ? this.view.join(this.source, id) : undefined;
      if (old) this.count(old, -1);
      if (now) this.count(now, 1);
    }
  }

  /** Add a row to all counts (by: 1), or remove it from them (-1). */
  count(row, by) {
    const { view, present } = this;
    if (by > 0) this.all.set(row.id, row);
    else this.all.delete(row.id);
    const named = nameOf(row.kind, row.namespace, row.name);
    if (by > 0) this.byName.set(named, row);
    else if (this.byName.get(named) === row) this.byName.delete(named);
    if (row.owner) this.owners.add(nameOf(row.owner_kind, row.namespace, row.owner), by);
    for (const key in present) present[key].add(row[key], by);
    if (row.needs_action && by > 0) this.needing.set(row.id, row);
    else this.needing.delete(row.id);
    if (!view.test(row)) return;
    this.kept += by;
    this.counts.add(row.phase, by);
    if (row.namespace) {
      if (!this.spaces.has(row.namespace)) this.spaces.set(row.namespace, new Tally());
      const space = this.spaces.get(row.namespace);
      space.add(row.phase, by);
      if (!space.size) this.spaces.delete(row.namespace);
    }
    if (view.isListed(row)) this.place(row, by);
  }

  place(row, by) {
    if (!this.isBuilt) this.listed.push(row);
    else {
      const at = this.search(row);
      if (by > 0) this.listed.splice(at, 0, row);
      else this.listed.splice(at, 1);
    }
  }

  /** The position of a row in the order, or the position at which it would be inserted. */
  search(row) {
    let [low, high] = [0, this.listed.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.order(this.listed[middle], row) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /**
   * By the id of a row that is folded: the row under whose card it is folded, because both have the same cause. That
   * row is the owner of the folded row, or a job that requests an image which the node does not have.
   * `isShown`: whether a row has a separate card, or may be folded under one.
   */
  folded(isShown) {
    const parentOf = new Map();
    for (const row of this.needing.values()) {
      const parents = isShown(row) ? this.parentsOf(row) : [];
      if (parents.length && parents.every((parent) => isShown(parent) && isSameCause(row, parent))) parentOf.set(row.id, parents[0]);
    }
    const roots = new Map();
    for (const start of parentOf.keys()) {
      const path = new Set();
      let id = start;
      while (parentOf.has(id) && !roots.has(id) && !path.has(id)) {
        path.add(id);
        id = parentOf.get(id).id;
      }
      const root = roots.get(id) || this.all.get(id); // in a circle: the row at which the search entered it
      for (const part of path) if (part !== root.id) roots.set(part, root);
      if (path.has(root.id)) parentOf.delete(root.id);
    }
    return roots;
  }

  parentsOf(row) {
    if (row.asked_by) {
      const jobs = row.asked_by.map((id) => this.all.get(id));
      return jobs.includes(undefined) ? [] : jobs;
    }
    const owner = row.owner && this.byName.get(nameOf(row.owner_kind, row.namespace, row.owner));
    return owner ? [owner] : [];
  }

  /** The row that owns a row; the row itself if others name it as their owner; null: neither. */
  ownerOf(row) {
    const owner = row.owner && this.byName.get(nameOf(row.owner_kind, row.namespace, row.owner));
    if (owner) return owner;
    return this.owners.has(nameOf(row.kind, row.namespace, row.name)) ? row : null;
  }
}
