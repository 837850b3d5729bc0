// The table of trials: sorted, filtered, and with only those rows on the page that are in view.

const ROW = 36;
const OVERSCAN = 8;

const COLUMNS = [
  { name: "Task", value: (trial) => trial.task, cell: (trial) => el("span", { class: "name", title: trial.path || trial.task }, trial.task) },
  { name: "Agent", value: (trial) => trial.group, cell: (trial) => el("span", { class: "name", title: trial.group }, trial.group) },
  { name: "Attempt", right: true, value: (trial) => trial.attempt, cell: (trial) => el("span", { class: "right" }, trial.attempt || "–") },
  { name: "Outcome", value: (trial) => OUTCOMES.indexOf(trial.outcome), cell: (trial) => el("span", { title: trial.superseded ? "run again: not counted" : null }, badge(trial.outcome, trial.superseded && ", run again")) },
  { name: "Reward", right: true, value: (trial) => trial.reward, cell: (trial) => el("span", { class: "right" }, number(trial.reward)) },
  { name: "Fault", value: (trial) => trial.fault, cell: (trial) => el("span", { class: "name", title: trial.message }, trial.fault || trial.message) },
  { name: "Time", right: true, value: (trial) => trial.seconds, cell: (trial) => el("span", { class: "right" }, seconds(trial.seconds)) },
  { name: "Tokens in", right: true, value: (trial) => trial.usage.input_tokens, cell: (trial) => el("span", { class: "right" }, trial.usage.input_tokens === undefined ? "–" : tokens(trial.usage.input_tokens)) },
  { name: "Tokens out", right: true, value: (trial) => trial.usage.output_tokens, cell: (trial) => el("span", { class: "right" }, trial.usage.output_tokens === undefined ? "–" : tokens(trial.usage.output_tokens)) },
  { name: "Signs", right: true, value: (trial) => trial.signs * 1e6 + trial.refused, cell: (trial) => el("span", { class: "right" },
    trial.signs > 0 && el("span", { class: "sign", title: `signs of tampering: ${trial.codes.join(", ")}` }, `${trial.signs} ⚑`),
    trial.refused > 0 && el("span", { class: "sign refused", title: "refused connections" }, `${trial.refused} ⊘`)) },
];

const compareValues = (a, b) => {
  const noA = a === null || a === undefined || a === "", noB = b === null || b === undefined || b === "";
  if (noA || noB) return noA - noB;
  return typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
};

class TrialTable {
  constructor(trials, open) {
    this.trials = trials;
    this.open = open;
    this.rows = trials;
    this.sorted = null;
    this.current = -1;
    this.box = $("table");
    this.head = el("div", { class: "row head", role: "row" }, COLUMNS.map((column, index) =>
      el("button", { type: "button", class: column.right && "right", role: "columnheader", "aria-sort": "none", onclick: () => this.sort(index) }, column.name)));
    this.body = el("div", { class: "body", role: "rowgroup" });
    this.box.append(this.head, this.body);
    for (const trial of trials) trial.words = clean([trial.task, trial.group, trial.name, trial.outcome, OUTCOME_WORDS[trial.outcome], trial.fault, trial.message, ...trial.codes].join(" ")).toLowerCase();
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    addEventListener("resize", () => this.draw());
    this.box.addEventListener("keydown", (event) => this.key(event));
    for (const id of ["filter", "by-group", "by-outcome"]) $(id).addEventListener("input", () => this.filter());
    this.filter();
  }

  sort(index) {
    const falling = this.sorted?.index === index && !this.sorted.falling;
    this.sorted = { index, falling };
    this.head.childNodes.forEach((button, number) => {
      button.setAttribute("aria-sort", number !== index ? "none" : falling ? "descending" : "ascending");
      button.textContent = COLUMNS[number].name + (number !== index ? "" : falling ? " ↓" : " ↑");
    });
    this.filter();
  }

  filter() {
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const group = $("by-group").value, outcome = $("by-outcome").value;
    this.rows = this.trials.filter((trial) => (!group || String(this.groupOf(trial)) === group)
      && (!outcome || trial.outcome === outcome) && words.every((word) => trial.words.includes(word)));
    if (this.sorted) {
      const { index, falling } = this.sorted, value = COLUMNS[index].value;
      this.rows.sort((a, b) => {
        const [first, second] = [value(a), value(b)];
        const missing = [first, second].some((one) => one === null || one === undefined || one === "");
        // What has no value stands last, whichever way it is sorted.
        return compareValues(first, second) * (falling && !missing ? -1 : 1) || a.index - b.index;
      });
    }
    this.current = -1;
    $("shown").textContent = this.rows.length === this.trials.length ? counted(this.trials.length, "trial") : `${whole(this.rows.length)} of ${counted(this.trials.length, "trial")}`;
    this.body.style.height = `${Math.max(this.rows.length * ROW, ROW * 2)}px`;
    this.box.scrollTop = 0;
    this.draw();
  }

  groupOf(trial) { return trial.groupIndex; }

  draw() {
    const first = Math.max(Math.floor(this.box.scrollTop / ROW) - OVERSCAN, 0);
    const last = Math.min(first + Math.ceil(this.box.clientHeight / ROW) + 2 * OVERSCAN, this.rows.length);
    const drawn = this.rows.slice(first, last).map((trial, offset) => this.row(trial, first + offset));
    this.body.replaceChildren(...(drawn.length ? drawn : [el("p", { class: "empty" }, "No trial matches.")]));
  }

  row(trial, place) {
    return el("div", { class: `row${trial.superseded ? " superseded" : ""}${place === this.current ? " current" : ""}`, role: "row", "data-trial": trial.index,
      style: { top: `${place * ROW}px` }, onclick: () => { this.current = place; this.draw(); this.open(trial); } }, COLUMNS.map((column) => column.cell(trial)));
  }

  key(event) {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && this.current >= 0 && event.target === this.box) this.open(this.rows[this.current]);
    if (!move) return;
    event.preventDefault();
    this.step(move);
  }

  // Go to the next or the last row, and give its trial.
  step(move) {
    this.current = Math.min(Math.max(this.current + move, 0), this.rows.length - 1);
    const top = this.current * ROW, seen = this.box.clientHeight - 2 * ROW;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top > this.box.scrollTop + seen) this.box.scrollTop = top - seen;
    this.draw();
    return this.rows[this.current];
  }
}
