// The page's course.

const theme = (dark) => document.documentElement.classList.toggle("dark", dark);

const interval = (rate) => rate.low !== null && el("small", { class: "whole" }, `${percent(rate.low)} – ${percent(rate.high)}`);
const mostAttempts = (group) => Math.max(0, ...Object.keys(group.pass_at).map(Number));
const usageCell = (group, name, words) => {
  const total = group.usage[name];
  if (!total) return el("td", null, "–");
  return el("td", null, words(total.value), total.known < total.trials && el("small", null, `of ${total.known} of ${total.trials} trials`));
};

// Columns that say nothing of any agent are left out.
const SUMMARY = [
  ["Agent", (group) => el("td", { class: "wrap" }, el("i", { class: "dot", style: { background: groupColour(group.index) } }), el("span", { class: "name" }, group.name))],
  ["Trials", (group) => el("td", null, `${group.trials}`, el("small", { class: "whole" }, counted(group.tasks, "task")))],
  ["Mean reward", ({ mean_reward: mean }) => el("td", null, mean ? number(mean.value) : "–", mean && mean.low !== null && el("small", null, `${number(mean.low, 2)} – ${number(mean.high, 2)}`))],
  ["pass@1", ({ pass_at: { 1: first }, ...group }) => el("td", null, first ? percent(first.value) : "–", first && interval(first), first && el("small", { class: "whole" }, `${group.passed} of ${group.valid} trials`))],
  ["pass@k", (group) => {
    const most = mostAttempts(group), last = group.pass_at[most];
    return most < 2 ? el("td", null, "–") : el("td", null, percent(last.value), interval(last), el("small", { class: "whole" }, `k = ${most}, ${counted(last.denominator, "task")}`));
  }, (group) => mostAttempts(group) > 1],
  ["Not in rates", (group) => el("td", null, group.trials - group.valid || "–", Object.entries(group.left_out).map(([why, count]) => el("small", null, `${count} ${why}`)),
    group.evaded > 0 && el("small", { class: "problem" }, `${group.evaded} in rates without a verdict, after tampering`),
    group.untrusted > 0 && el("small", { class: "problem" }, `${group.untrusted} failed for tampering: 0 in the mean`)), (group) => group.trials > group.valid || group.evaded + group.untrusted > 0],
  ["Faults", (group) => el("td", null, Object.values(group.errors).reduce((sum, count) => sum + count, 0) || "–", Object.entries(group.errors).slice(0, 4).map(([name, count]) => el("small", null, `${count} × ${name}`))),
    (group) => Object.keys(group.errors).length],
  ["Tampering", (group) => el("td", null, group.suspicious || "–", group.suspicious > 0 && el("small", { class: "problem" }, "trials with signs")), (group) => group.suspicious],
  ["Tokens in", (group) => usageCell(group, "input_tokens", tokens), (group) => group.usage.input_tokens],
  ["Tokens out", (group) => usageCell(group, "output_tokens", tokens), (group) => group.usage.output_tokens],
  ["Cost", (group) => usageCell(group, "cost_usd", (value) => `$${number(value, 2)}`), (group) => group.usage.cost_usd],
  ["Mean time", (group) => el("td", null, seconds(Object.values(group.phases).reduce((sum, phase) => sum + phase.mean, 0) || null)), (group) => Object.keys(group.phases).length],
];

const summary = (data) => {
  const columns = SUMMARY.filter(([, , isSaying]) => !isSaying || data.groups.some(isSaying));
  return el("div", { class: "card scroll" }, data.job.problems.map((problem) => el("p", { class: "problem" }, problem)),
    el("table", null, el("tr", null, columns.map(([name]) => el("th", null, name))), data.groups.map((group) => el("tr", null, columns.map(([, cell]) => cell(group))))));
};

const CHANGE_WORDS = ["worse", "flaky", "better", "same"];
const SHOWN_CHANGES = 100;
const OPEN_CHANGES = 12;
const heads = (...names) => el("tr", null, names.map((name) => el("th", null, name)));
const moved = (group, what, words) => group.tasks.length > 0 ? `${words(group[`${what}_then`])} → ${words(group[`${what}_now`])}` : "–";
const changeRow = (group) => el("tr", null,
  el("td", { class: "wrap" }, el("span", { class: "name" }, group.name), group.then_name && el("small", null, "against ", el("span", { class: "name" }, group.then_name))),
  el("td", null, group.tasks.length),
  CHANGE_WORDS.map((name) => [name, group.tasks.filter((task) => task.change === name).length]).map(([name, count]) => el("td", null, count > 0 ? el("span", { class: `badge ${name}` }, count) : "–")),
  el("td", null, moved(group, "rate", percent), el("small", null, pValue(group.p_passed))),
  el("td", null, moved(group, "reward", number), el("small", null, pValue(group.p_reward))));
const changedTasks = (group, isOpen) => {
  const changed = group.tasks.filter((task) => task.change !== "same");
  return [
    changed.length > 0 && folded(el("span", null, `${counted(changed.length, "task")} of `, el("b", { class: "name" }, group.name)), () => el("div", { class: "scroll" }, el("table", null,
      heads("Task", "Change", "Passed then", "Passed now", "Fisher's exact test"),
      changed.slice(0, SHOWN_CHANGES).map((task) => el("tr", null, el("td", { class: "wrap" }, el("span", { class: "name" }, task.task)), el("td", null, el("span", { class: `badge ${task.change}` }, task.change)),
        el("td", null, `${task.then[0]} of ${task.then[1]}`), el("td", null, `${task.now[0]} of ${task.now[1]}`), el("td", null, pValue(task.p), task.significant && el("small", null, "significant"))))),
    changed.length > SHOWN_CHANGES && el("p", { class: "note" }, `and ${changed.length - SHOWN_CHANGES} more`)), isOpen),
    [["only_now", "this job"], ["only_then", "the baseline"]].map(([name, where]) => group[name].length > 0 && folded(`${counted(group[name].length, "task")} of ${group.name} with a valid reward in ${where} alone`, () => pane(group[name].join("\n")))),
  ];
};
const comparisonView = (found) => el("div", { class: "card" }, el("h2", null, "Against ", el("span", { class: "name" }, found.baseline)),
  found.groups.length > 0 && el("div", { class: "scroll" }, el("table", null, heads("Agent", "Tasks", "Worse", "Flaky", "Better", "Same", "Passed", "Mean reward"), found.groups.map(changeRow))),
  el("p", { class: "note" }, "p of a permutation test over the tasks that have valid rewards in both jobs"),
  found.groups.map((group) => changedTasks(group, found.groups.reduce((sum, one) => sum + one.tasks.filter((task) => task.change !== "same").length, 0) <= OPEN_CHANGES)),
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
  show("plots", plotAgents(data.groups, data.trials), plotCurve(data.groups), plotTimes(data.groups, data.phases), plotRewards(data.groups, data.trials));
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
