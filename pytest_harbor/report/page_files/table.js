// The table of trials: sorted, filtered, and with only those rows on the page that are in view.

const ROW = 36;
const OVERSCAN = 8;

const right = (...content) => el("span", { class: "right" }, content);
const present = (words, value) => right(value === undefined || value === null ? "–" : words(value));

// A column without a value in any trial is left out.
const COLUMNS = [
  { name: "Task", width: "minmax(200px, 3fr)", value: (trial) => trial.task, cell: (trial) => el("span", { class: "name", title: trial.path || trial.task }, trial.task) },
  { name: "Agent", width: "minmax(190px, 2.6fr)", value: (trial) => trial.group, cell: (trial) => el("span", { class: "name", title: trial.group }, trial.group) },
  { name: "Attempt", width: "74px", right: true, value: (trial) => trial.attempt || null, cell: (trial) => right(trial.attempt || "–") },
  { name: "Chosen", width: "84px", value: (trial) => trial.selected ? "best" : null, cell: (trial) => el("span", {}, trial.selected ? "best" : "") },
  { name: "Outcome", width: "minmax(140px, 1fr)", value: (trial) => OUTCOMES.indexOf(trial.outcome), cell: (trial) => el("span", { title: trial.superseded ? "run again: not counted" : null }, badge(trial.outcome, trial.superseded && ", run again")) },
  { name: "Reward", width: "84px", right: true, value: (trial) => trial.reward, cell: (trial) => right(number(trial.reward)) },
  { name: "Fault", width: "minmax(110px, 1.2fr)", value: (trial) => trial.fault || trial.message, cell: (trial) => el("span", { class: "name", title: trial.message }, trial.fault || trial.message) },
  { name: "Time", width: "92px", right: true, value: (trial) => trial.seconds, cell: (trial) => present(seconds, trial.seconds) },
  { name: "Tokens in", width: "92px", right: true, value: (trial) => trial.usage.input_tokens, cell: (trial) => present(tokens, trial.usage.input_tokens) },
  { name: "Tokens out", width: "98px", right: true, value: (trial) => trial.usage.output_tokens, cell: (trial) => present(tokens, trial.usage.output_tokens) },
  { name: "Cost", width: "84px", right: true, value: (trial) => trial.usage.cost_usd, cell: (trial) => present((cost) => `$${cost < 1 ? number(cost) : number(cost, 2)}`, trial.usage.cost_usd) },
  { name: "Signs", width: "96px", right: true, value: (trial) => trial.signs * 1e6 + trial.refused || null, cell: (trial) => right(
    trial.signs > 0 && el("span", { class: "sign", title: `signs of tampering: ${trial.codes.join(", ")}` }, `${trial.signs} ⚑`),
    trial.refused > 0 && el("span", { class: "sign refused", title: "refused connections" }, `${trial.refused} ⊘`)) },
];
const isMissing = (value) => value === null || value === undefined || value === "";

const compareValues = (a, b) => typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;

class TrialTable {
  constructor(trials, open) {
    this.trials = trials;
    this.open = open;
    this.rows = trials;
    this.sorted = null;
    this.current = -1;
    this.box = $("table");
    this.columns = COLUMNS.filter((column) => trials.some((trial) => !isMissing(column.value(trial))));
    this.box.style.setProperty("--columns", this.columns.map((column) => column.width).join(" "));
    this.head = el("div", { class: "row head", role: "row" }, this.columns.map((column, index) =>
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
      button.textContent = this.columns[number].name + (number !== index ? "" : falling ? " ↓" : " ↑");
    });
    this.filter();
  }

  filter() {
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const group = $("by-group").value, outcome = $("by-outcome").value;
    this.rows = this.trials.filter((trial) => (!group || String(this.groupOf(trial)) === group)
      && (!outcome || trial.outcome === outcome) && words.every((word) => trial.words.includes(word)));
    if (this.sorted) {
      const { index, falling } = this.sorted, value = this.columns[index].value;
      this.rows.sort((a, b) => {
        const [first, second] = [value(a), value(b)];
        // What has no value stands last, whichever way it is sorted.
        if (isMissing(first) || isMissing(second)) return isMissing(first) - isMissing(second) || a.index - b.index;
        return compareValues(first, second) * (falling ? -1 : 1) || a.index - b.index;
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
      style: { top: `${place * ROW}px` }, onclick: () => { this.current = place; this.draw(); this.open(trial); } }, this.columns.map((column) => column.cell(trial)));
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
