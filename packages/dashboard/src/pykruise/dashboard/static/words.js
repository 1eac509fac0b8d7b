// Texts for people. Texts of a cluster are data: characters that would hide or reverse others become visible.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** The text, cut after `most` characters, with each hidden character written like ⟨U+202E⟩. */
export function clean(text, most = 400) {
  const whole = String(text ?? "");
  const cut = whole.length > most ? `${whole.slice(0, most)}…` : whole;
  return cut.replace(HIDDEN, (one) => `⟨U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** 45s, 3m, 2h, 5d. */
export function age(time, now = Date.now()) {
  const seconds = Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
  if (Number.isNaN(seconds)) return "";
  if (seconds < 60) return `${seconds - (seconds % 5)}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

const NUMBERS = new Intl.NumberFormat("en-US");

/** 1,234. */
export const count = (number) => NUMBERS.format(Number(number));

/** A number with its noun, or with its noun and verb: 1 pod, 2 pods. `plural`: if it is not the singular with an s. */
export const many = (number, word, plural = `${word}s`) => `${count(number)} ${number === 1 ? word : plural}`;

/** Parts of a long word, between which it may break: before a capital, after punctuation, not within a version. */
export const pieces = (text) => text.split(/(?<=[a-z0-9])(?=[A-Z])|(?<=[/:@_-])|(?<=\.)(?!\d)/);

/** First line of a page that is copied as text: the title, the cluster, and the time. */
export const titleLine = (title, cluster, now = new Date()) => `${title}, ${cluster}, ${now.toISOString().slice(0, 16)}Z`;

/** Text of a page that is still loading. */
export const LOADING = "Loading …";
