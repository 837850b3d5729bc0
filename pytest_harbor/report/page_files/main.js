// The page's course.

const theme = (dark) => document.documentElement.classList.toggle("dark", dark);

const interval = (rate) => rate.low !== null && el("small", null, `${percent(rate.low)} – ${percent(rate.high)}`);
const mostAttempts = (group) => Math.max(0, ...Object.keys(group.pass_at).map(Number));
const usageCell = (group, name, words) => {
  const total = group.usage[name];
  if (!total) return el("td", null, "–");
  return el("td", null, words(total.value), total.known < total.trials && el("small", null, `of ${total.known} of ${total.trials} trials`));
};

const summaryRow = (group) => {
  const first = group.pass_at["1"], most = mostAttempts(group), last = group.pass_at[most];
  const mean = group.mean_reward;
  const apart = Object.entries(group.left_out).map(([why, count]) => el("small", null, `${count} ${why}`));
  const faults = Object.entries(group.errors).slice(0, 4).map(([name, count]) => el("small", null, `${count} × ${name}`));
  const time = Object.values(group.phases).reduce((sum, phase) => sum + phase.mean, 0);
  return el("tr", null,
    el("td", { class: "wrap" }, el("i", { class: "dot", style: { background: groupColour(group.index) } }), el("span", { class: "name" }, group.name)),
    el("td", null, `${group.trials}`, el("small", null, counted(group.tasks, "task"))),
    el("td", null, mean ? number(mean.value) : "–", mean && mean.low !== null && el("small", null, `${number(mean.low, 2)} – ${number(mean.high, 2)}`)),
    el("td", null, first ? percent(first.value) : "–", first && interval(first), first && el("small", null, `${first.numerator} of ${first.denominator} trials`)),
    el("td", null, most > 1 ? percent(last.value) : "–", most > 1 && interval(last), most > 1 && el("small", null, `k = ${most}, ${counted(last.denominator, "task")}`)),
    el("td", null, apart.length ? apart : "none", group.evaded > 0 && el("small", { class: "problem" }, `${group.evaded} without a verdict after tampering: not passed`)),
    el("td", null, faults.length ? faults : "none", group.suspicious > 0 && el("small", { class: "problem" }, `${counted(group.suspicious, "trial")} with signs of tampering`)),
    usageCell(group, "input_tokens", tokens), usageCell(group, "output_tokens", tokens), usageCell(group, "cost_usd", (value) => `$${number(value, 2)}`),
    el("td", null, time ? seconds(time) : "–"));
};

const summary = (data) => {
  const heads = ["Agent", "Trials", "Mean reward", "pass@1", "pass@k", "Not in rates", "Faults", "Tokens in", "Tokens out", "Cost", "Mean time"];
  return el("div", { class: "card scroll" }, data.job.problems.map((problem) => el("p", { class: "problem" }, problem)),
    el("table", null, el("tr", null, heads.map((name) => el("th", null, name))), data.groups.map(summaryRow)));
};

const CHANGE_WORDS = ["worse", "flaky", "better", "same"];
const SHOWN_CHANGES = 100;
const comparisonView = (found) => el("div", { class: "card" }, el("h2", null, "Against ", el("span", { class: "name" }, found.baseline)),
  found.groups.map((group) => {
    const changed = group.tasks.filter((task) => task.change !== "same");
    const moved = (what, words) => `${words(group[`${what}_then`])} → ${words(group[`${what}_now`])}`;
    return el("div", null,
      el("p", null, el("b", { class: "name" }, group.name), group.then_name && [" against ", el("b", { class: "name" }, group.then_name)], `: ${counted(group.tasks.length, "task")} compared; `,
        CHANGE_WORDS.map((name) => [el("span", { class: `badge ${name}` }, `${group.tasks.filter((task) => task.change === name).length} ${name}`), " \u2002"])),
      group.tasks.length > 0 && el("p", { class: "soft" }, `passed ${moved("rate", percent)} (${pValue(group.p_passed)}), mean reward ${moved("reward", number)} (${pValue(group.p_reward)}); permutation test over tasks`),
      changed.length > 0 && el("div", { class: "scroll" }, el("table", null, el("tr", null, ["Task", "Change", "Passed then", "Passed now", "Fisher's exact test"].map((name) => el("th", null, name))),
        changed.slice(0, SHOWN_CHANGES).map((task) => el("tr", null, el("td", { class: "wrap" }, el("span", { class: "name" }, task.task)), el("td", null, el("span", { class: `badge ${task.change}` }, task.change)),
          el("td", null, `${task.then[0]} of ${task.then[1]}`), el("td", null, `${task.now[0]} of ${task.now[1]}`), el("td", null, pValue(task.p), task.significant && el("small", null, "significant"))))),
      changed.length > SHOWN_CHANGES && el("p", { class: "note" }, `and ${changed.length - SHOWN_CHANGES} more`)),
      [["only_now", "this job"], ["only_then", "the baseline"]].map(([name, where]) => group[name].length > 0 && folded(`${counted(group[name].length, "task")} with a valid reward in ${where} alone`, () => pane(group[name].join("\n")))));
  }),
  found.unmatched.length > 0 && el("p", { class: "note" }, `not in the baseline: ${found.unmatched.join(", ")}`));

const facts = (job) => [counted(job.tasks, "task"), counted(job.trials, "trial"), job.started && `started ${moment(job.started)}`,
  job.finished ? job.started && `took ${seconds((new Date(job.finished) - new Date(job.started)) / 1000)}` : "not finished when this was written"].filter(Boolean).join(" · ");

const show = (id, ...content) => {
  const found = content.flat(2).filter(Boolean);
  $(id).append(...found);
  $(id).hidden = !found.length;
};

const choices = (id, first, entries) => $(id).append(el("option", { value: "" }, first), ...entries.map(([value, text]) => el("option", { value }, text)));

const start = async () => {
  const wished = matchMedia("(prefers-color-scheme: dark)");
  theme(wished.matches);
  wished.addEventListener("change", () => theme(wished.matches));
  $("theme").addEventListener("click", () => theme(!document.documentElement.classList.contains("dark")));
  const data = await unpack("data");
  const names = new Map(data.groups.map((group, index) => [group.name, index]));
  data.groups.forEach((group, index) => { group.index = index; });
  data.trials.forEach((trial, index) => { trial.index = index; trial.groupIndex = names.get(trial.group); });
  $("job-facts").textContent = facts(data.job);
  show("summary", summary(data));
  show("plots", plotPassed(data.groups), plotCurve(data.groups), plotOutcomes(data.groups, data.trials), plotRewards(data.groups, data.trials), plotTimes(data.groups, data.phases));
  if (data.comparison) show("comparison", comparisonView(data.comparison));
  choices("by-group", "all agents", data.groups.map((group) => [group.index, shorten(group.name, 60)]));
  choices("by-outcome", "all outcomes", OUTCOMES.filter((outcome) => data.trials.some((trial) => trial.outcome === outcome)).map((outcome) => [outcome, OUTCOME_WORDS[outcome]]));
  $("trials").hidden = false;
  const dialog = new TrialDialog((move) => table.step(move));
  const table = new TrialTable(data.trials, (trial) => dialog.open(trial));
  const wanted = /^#trial-(\d+)$/.exec(location.hash);
  if (wanted && data.trials[wanted[1]]) dialog.open(data.trials[wanted[1]]);
  $("waiting").hidden = true;
  document.documentElement.dataset.ready = "yes";
};

start().catch((error) => { $("waiting").textContent = `This report cannot be shown: ${error.message}`; throw error; });
