"use strict";
// Every text of a job comes from strangers: it is only ever put on the page as text.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const HUGE = 1.7e308;

const OUTCOMES = ["passed", "failed", "task", "agent", "environment", "skipped", "unfinished", "unreadable"];
const OUTCOME_WORDS = {
  passed: "passed", failed: "failed", task: "no valid reward", agent: "agent could not work",
  environment: "environment fault", skipped: "skipped", unfinished: "no result yet", unreadable: "unreadable",
};
const PHASE_WORDS = { environment: "environment", agent_setup: "agent set-up", agent: "agent", verifier: "verifier" };

// Escape sequences of terminals are dropped; what else would not be seen, or would turn the
// direction of writing, is shown as a sign.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\^_])/g;
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
const clean = (value) => {
  const text = String(value ?? "").replace(/\r\n/g, "\n").replace(ESCAPES, "");
  return text.replace(UNSEEN, (c) => {
    const code = c.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : "\u2423";
  });
};

const fill = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
    else node.setAttribute(name, value === true ? "" : clean(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(clean(child)));
  }
  return node;
};
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const unpack = async (id) => {
  const text = atob($(id).textContent);
  const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
};

const number = (value, digits = 3) => {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= HUGE) return value > 0 ? "∞" : "−∞";
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3)) return value.toExponential(2).replace("-", "−");
  return String(+value.toFixed(digits)).replace("-", "−");
};
const percent = (value) => `${+(value * 100).toFixed(1)} %`;
const whole = (value) => Math.round(value).toLocaleString("en").replace(/,/g, "\u202f");
const tokens = (value) => value >= 1e6 ? `${+(value / 1e6).toFixed(2)} M` : value >= 1e4 ? `${+(value / 1e3).toFixed(1)} k` : whole(value);
const seconds = (value) => {
  if (value === null || value === undefined) return "–";
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 100) return `${Math.round(value)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 100) return `${minutes} min ${Math.round(value - minutes * 60)} s`;
  return `${(value / 3600).toFixed(1)} h`;
};
const counted = (count, word) => `${whole(count)} ${word}${count === 1 ? "" : "s"}`;
const moment = (text) => (text ? new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) : "");
const pValue = (p) => (p < 0.001 ? "p < 0.001" : `p = ${+p.toPrecision(2)}`);

const badge = (outcome, more) => el("span", { class: `badge ${outcome}` }, OUTCOME_WORDS[outcome] || outcome, more);
const GROUP_COLOURS = 8;
const groupColour = (index) => `var(--group-${index % GROUP_COLOURS})`;

const pane = (text, kind) => el("pre", { class: kind || "log" }, text);
const differences = (text) => el("pre", { class: "diff" }, clean(text).split("\n").map((line) => {
  const kind = /^(\+\+\+|---|@@)/.test(line) ? "where" : line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "";
  return el("span", { class: kind }, `${line}\n`);
}));
