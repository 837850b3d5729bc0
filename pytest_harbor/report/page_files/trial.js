// One trial: its details are unpacked when it is opened.

const fact = (name, ...value) => el("div", null, el("small", null, name), value);
const sectionOf = (title, ...content) => {
  const parts = content.flat(3).filter(Boolean);
  return parts.length > 0 && el("section", { class: "card" }, el("h2", null, title), parts);
};
const folded = (title, content, open) => {
  // Long texts are put on the page when they are looked at.
  const box = el("details", { open }, el("summary", null, title));
  const show = () => { if (box.open && box.childNodes.length === 1) box.append(content()); };
  box.addEventListener("toggle", show);
  show();
  return box;
};

const bytes = (size) => size === null ? "" : size < 1024 ? `${size} B` : size < 1024 ** 2 ? `${+(size / 1024).toFixed(1)} KiB` : `${+(size / 1024 ** 2).toFixed(1)} MiB`;
const fileList = (found) => found && [
  found.files.map((file) => file.text === undefined
    ? el("details", null, el("summary", null, file.path, " ", el("span", { class: "soft" }, file.kind === "file" ? `${bytes(file.size)}, not shown` : file.kind)))
    : folded(el("span", null, file.path, " ", el("span", { class: "soft" }, bytes(file.size))), () => pane(file.text))),
  (found.more > 0 || found.cut_off) && el("p", { class: "note" }, found.cut_off ? "and many more files" : `and ${counted(found.more, "more file")}`),
];

const stepView = (step) => el("div", { class: "step" },
  el("div", null, el("div", { class: `who ${["agent", "user", "system"].includes(step.source) ? step.source : ""}` }, step.source || "?"),
    el("div", { class: "note" }, step.number !== undefined && `step ${step.number}`),
    (step.read !== undefined || step.written !== undefined) && el("div", { class: "note" }, `${tokens(step.read || 0)} → ${tokens(step.written || 0)} tokens`)),
  el("div", null,
    step.reasoning && folded("reasoning", () => pane(step.reasoning, "prose")),
    step.text && el("div", { class: "said" }, step.text),
    (step.calls || []).map((call) => [el("div", { class: "call" }, "calls ", el("b", null, call.name || "a tool")), call.edit ? differences(call.edit) : pane(call.arguments)]),
    (step.results || []).filter(Boolean).map((result) => [el("div", { class: "call" }, "sees"), pane(result)])));

const FIRST_STEPS = 40;
const trajectoryView = (found) => {
  if (!found) return null;
  const gap = found.left_out > 0 && el("p", { class: "note" }, `… ${counted(found.left_out, "step")} not shown …`);
  const steps = found.steps.map((step, index) => [step, gap && index === found.left_out_after ? gap : null]);
  const list = el("div", null);
  const more = (count) => {
    const next = steps.splice(0, count);
    list.append(...next.flatMap(([step, before]) => [before, stepView(step)].filter(Boolean)));
    button.hidden = !steps.length;
    button.textContent = `Show ${counted(steps.length, "more step")}`;
  };
  const button = el("button", { type: "button", onclick: () => more(Infinity) });
  more(FIRST_STEPS);
  return [found.problem && el("p", { class: "problem" }, found.problem), list, button, found.agents > 0 && el("p", { class: "note" }, `${counted(found.agents, "further agent")} in the trajectory's file`)];
};

const ctrfView = (found) => found && [
  el("p", { class: "soft" }, found.tool && `${found.tool}: `, Object.entries(found.counts).filter(([name, count]) => count > 0 || name === "tests").map(([name, count]) => `${count} ${name}`).join(", ")),
  found.tests.filter((test) => test.status !== "passed").map((test) => folded(el("span", null, badge(test.status === "failed" ? "failed" : "skipped", false), " ", el("span", { class: "name" }, test.name)), () => pane([test.message, test.trace].filter(Boolean).join("\n\n") || "no message"))),
  found.tests.some((test) => test.status === "passed") && folded(counted(found.tests.filter((test) => test.status === "passed").length, "passed test"), () => pane(found.tests.filter((test) => test.status === "passed").map((test) => test.name).join("\n"))),
  found.more > 0 && el("p", { class: "note" }, `and ${counted(found.more, "more test")}`),
];

const findingsView = (found) => found && [
  found.grading && el("p", { class: "soft" }, `grading: ${found.grading}`),
  found.findings.length > 0 && el("div", { class: "scroll" }, el("table", null, found.findings.map((one) => el("tr", null,
    el("td", null, el("span", { class: one.level === "suspicious" ? "problem" : "soft" }, one.code), el("small", null, one.level, one.remedied && ", undone before grading")),
    el("td", { class: "wrap" }, one.message, el("small", { class: "name" }, one.path), one.found && el("small", { class: "name" }, `${one.original ? `${one.original.slice(0, 12)}… → ` : ""}${one.found.slice(0, 12)}…`)))))),
  ["restored", "left_running", "unseen"].filter((name) => found[name].length).map((name) => folded(`${name.replace("_", " ")}: ${found[name].length}`, () => pane(found[name].join("\n")))),
];

const networkView = (found) => found && found.phases.length > 0 && [
  el("p", { class: "soft" }, [...new Set(found.phases.map((phase) => `${[phase.step, PHASE_WORDS[phase.phase] || phase.phase].filter(Boolean).join(" · ")}: ${phase.policy}`))].join("; ")),
  found.refused.length > 0 && el("div", { class: "scroll" }, el("table", null, el("tr", null, ["Refused", "Tries", "Phase"].map((name) => el("th", null, name))),
    found.refused.map((one) => el("tr", null, el("td", { class: "wrap" }, el("span", { class: "name" }, one.destination), one.port > 0 && `:${one.port}`, ` (${one.protocol})`), el("td", null, one.count), el("td", null, [one.step, PHASE_WORDS[one.phase] || one.phase].filter(Boolean).join(" · ")))))),
  found.more > 0 && el("p", { class: "note" }, `and ${counted(found.more, "try")} at others`),
];

const workView = (work, several) => {
  const name = (title) => several ? `${work.step}: ${title}` : title;
  const files = work.verifier_files.files.length > 0 && folded("further files", () => el("div", null, fileList(work.verifier_files)));
  const exits = [["agent", work.agent_exit], ["verifier", work.verifier_exit]].filter(([, code]) => typeof code === "number").map(([who, code]) => `${who} exit status ${code}`);
  return [
    sectionOf(name("Instruction"), work.instruction && [el("p", { class: "note" }, `from ${work.instruction_from}`), pane(work.instruction, "prose")]),
    sectionOf(name("Trajectory"), trajectoryView(work.trajectory)),
    sectionOf(name("Verifier"), exits.length > 0 && el("p", { class: "soft" }, exits.join(", ")), [...work.unmet, ...work.notes].map((note) => el("p", { class: "note" }, note)),
      ctrfView(work.ctrf), work.output && folded("output", () => pane(work.output), true), files),
    sectionOf(name("Changes"), work.diffs.map((one) => folded(el("span", null, one.path, " ", one.against && el("span", { class: "soft" }, `against ${one.against} as it is now`)), () => differences(one.text), work.diffs.length < 4))),
    sectionOf(name("Artifacts"), work.artifacts.files.length > 0 && fileList(work.artifacts), work.missing.map((one) => el("p", { class: "note" }, `${one.source}: ${one.status}`))),
    sectionOf(name("Agent's files"), work.agent_files.files.length > 0 && fileList(work.agent_files)),
    (work.integrity.findings.length > 0 || work.integrity.left_running.length > 0 || work.integrity.restored.length > 0) && sectionOf(name("Integrity"), findingsView(work.integrity)),
  ];
};

const trialView = (trial, found) => el("div", { class: "trial-body" },
  el("section", { class: "card" },
    el("div", { class: "facts" },
      fact("outcome", badge(trial.outcome, trial.superseded && ", run again: not counted")), fact("reward", number(trial.reward), trial.reward !== null && trial.threshold !== 1 && el("span", { class: "soft" }, ` of ${number(trial.threshold)}`)),
      Object.entries(trial.rewards).filter(([key]) => key !== "reward").map(([key, value]) => fact(shorten(key, 30), number(value))),
      fact("time", seconds(trial.seconds)), trial.started && fact("started", moment(trial.started)),
      trial.usage.input_tokens !== undefined && fact("tokens in", whole(trial.usage.input_tokens)), trial.usage.output_tokens !== undefined && fact("tokens out", whole(trial.usage.output_tokens)),
      trial.usage.cost_usd !== undefined && fact("cost", `${number(trial.usage.cost_usd, 4)} USD`)),
    (trial.fault || found.message) && [el("p", { class: "problem" }, trial.fault), found.message && pane(found.message)],
    found.problems.map((problem) => el("p", { class: "problem" }, problem)),
    found.traceback && folded("traceback", () => pane(found.traceback)),
    trial.spans.length > 0 && el("div", { class: "stack" }, waterfall(trial.spans))),
  found.works.map((work) => workView(work, found.works.length > 1)),
  sectionOf("Network", networkView(found.network)),
  sectionOf("Logs", (found.logs || []).map((log) => folded(log.path, () => pane(log.text)))));

class TrialDialog {
  constructor(step) {
    this.box = $("trial");
    this.step = step;
    this.box.addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));
    this.box.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (move) this.open(this.step(move));
    });
  }

  async open(trial) {
    this.shown = trial.index;
    const found = await unpack(`trial-${trial.index}`);
    if (this.shown !== trial.index) return;
    const head = el("div", { class: "trial-head" },
      el("div", null, el("h1", { class: "name" }, trial.task), el("p", { class: "soft name" }, [trial.group, trial.attempt > 0 && `attempt ${trial.attempt}`, trial.name].filter(Boolean).join(" · "))),
      el("nav", null, el("button", { type: "button", title: "Trial before (←)", onclick: () => this.open(this.step(-1)) }, "←"),
        el("button", { type: "button", title: "Next trial (→)", onclick: () => this.open(this.step(1)) }, "→"),
        el("button", { type: "button", title: "Close (Esc)", onclick: () => this.box.close() }, "✕")));
    this.box.replaceChildren(head, trialView(trial, found));
    if (!this.box.open) this.box.showModal();
    this.box.focus();
    this.box.scrollTop = 0;
    history.replaceState(null, "", `#trial-${trial.index}`);
  }
}
