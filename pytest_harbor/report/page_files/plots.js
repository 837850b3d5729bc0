// The plots: small SVGs, drawn from the numbers.

const WIDTH = 520;
const LABEL = 172;
const shorten = (text, most = 23) => {
  const shown = clean(text);
  return shown.length > most ? `${shown.slice(0, most - 1)}…` : shown;
};
const card = (title, note, ...content) => el("div", { class: "card" }, el("h2", null, title), note && el("p", { class: "note" }, note), content);
const canvas = (height, ...content) => svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img" }, content);
const line = (x1, y1, x2, y2, attributes) => svg("line", { x1, y1, x2, y2, class: "axis", ...attributes });
const label = (x, y, text, attributes) => svg("text", { x, y, ...attributes }, text);
const tip = (text) => svg("title", null, text);
const ticks = (values, x, top, bottom, words) => values.map((value) => [
  line(x(value), top, x(value), bottom),
  label(x(value), bottom + 16, words(value), { "text-anchor": "middle" }),
]);
const legend = (entries) => el("div", { class: "legend" }, entries.map(([colour, text]) =>
  el("span", null, el("i", { class: "dot", style: { background: colour } }), text)));

// Steps of 1, 2 or 5 times a power of ten.
const scaleTo = (most) => {
  if (!(most > 0)) return [0, 1];
  const power = 10 ** Math.floor(Math.log10(most));
  const step = [0.2, 0.5, 1, 2].map((one) => one * power).find((one) => most / one <= 6) || power;
  const values = [];
  for (let value = 0; value < most + step * 0.999; value += step) values.push(+value.toPrecision(6));
  return values;
};

const plotPassed = (groups) => {
  const rows = groups.filter((group) => group.pass_at["1"]);
  if (!rows.length) return null;
  const height = rows.length * 30;
  const x = (value) => LABEL + value * (WIDTH - LABEL - 62);
  return [el("p", { class: "note" }, "pass@1 with its 95 % interval"), canvas(height + 22,
    ticks([0, 0.25, 0.5, 0.75, 1], x, 0, height, (value) => `${value * 100} %`),
    rows.map((group, row) => {
      const rate = group.pass_at["1"], y = row * 30 + 15, colour = groupColour(group.index);
      return svg("g", null,
        tip(`${group.name}: ${rate.numerator} of ${rate.denominator} valid trials, ${percent(rate.low)} to ${percent(rate.high)}`),
        label(0, y + 4, shorten(group.name), { class: "name" }),
        line(x(rate.low), y, x(rate.high), y, { stroke: colour, style: { stroke: colour, "stroke-width": 3, "stroke-linecap": "round", opacity: 0.4 } }),
        svg("circle", { cx: x(rate.value), cy: y, r: 5.5, fill: colour }),
        label(WIDTH, y + 4, percent(rate.value), { "text-anchor": "end", class: "name" }));
    }))];
};

const plotOutcomes = (groups, trials) => {
  const height = groups.length * 30;
  const present = OUTCOMES.filter((outcome) => trials.some((trial) => trial.outcome === outcome && !trial.superseded));
  const span = WIDTH - LABEL - 8;
  return [el("p", { class: "note" }, "how trials ended"), canvas(height, groups.map((group, row) => {
    const own = trials.filter((trial) => trial.group === group.name && !trial.superseded);
    let left = LABEL;
    return svg("g", null,
      label(0, row * 30 + 19, shorten(group.name), { class: "name" }),
      present.map((outcome) => {
        const count = own.filter((trial) => trial.outcome === outcome).length;
        const width = (count / Math.max(own.length, 1)) * span;
        left += width;
        return count > 0 && svg("g", null, tip(`${group.name}: ${count} ${OUTCOME_WORDS[outcome]}`),
          svg("rect", { x: left - width, y: row * 30 + 5, width: Math.max(width - 1, 1), height: 20, rx: 3, fill: `var(--${outcome})` }),
          width > 26 && label(left - width / 2, row * 30 + 19, count, { "text-anchor": "middle", style: { fill: "#fff", "font-weight": 600 } }));
      }));
  })), legend(present.map((outcome) => [`var(--${outcome})`, OUTCOME_WORDS[outcome]]))];
};

const plotAgents = (groups, trials) => card("Agents side by side", null, plotPassed(groups), plotOutcomes(groups, trials));

const plotCurve = (groups) => {
  const most = Math.max(0, ...groups.flatMap((group) => Object.keys(group.pass_at).map(Number)));
  if (most < 2) return null;
  const top = 8, height = 190, left = 42;
  const x = (k) => left + ((k - 1) / (most - 1)) * (WIDTH - left - 12);
  const y = (value) => top + (1 - value) * height;
  const step = Math.ceil(most / 10);
  const ks = Array.from({ length: most }, (_, index) => index + 1).filter((k) => k === 1 || k === most || k % step === 0);
  return card("pass@k", "one of k attempts passes: unbiased estimate with its 95 % interval; hollow: not all tasks have k attempts", canvas(height + 30,
    [0, 0.25, 0.5, 0.75, 1].map((value) => [line(left, y(value), WIDTH, y(value)), label(left - 8, y(value) + 4, `${value * 100} %`, { "text-anchor": "end" })]),
    ks.map((k) => label(x(k), height + top + 18, `k=${k}`, { "text-anchor": "middle" })),
    groups.map((group) => {
      const points = Object.entries(group.pass_at).map(([k, rate]) => [Number(k), rate]).sort((a, b) => a[0] - b[0]);
      if (!points.length) return null;
      const colour = groupColour(group.index);
      const band = [...points.map(([k, rate]) => `${x(k)},${y(rate.high)}`), ...points.slice().reverse().map(([k, rate]) => `${x(k)},${y(rate.low)}`)];
      return svg("g", null,
        svg("polygon", { points: band.join(" "), fill: colour, opacity: 0.1 }),
        svg("polyline", { points: points.map(([k, rate]) => `${x(k)},${y(rate.value)}`).join(" "), fill: "none", stroke: colour, "stroke-width": 2 }),
        points.map(([k, rate]) => svg("circle", { cx: x(k), cy: y(rate.value), r: most > 20 ? 2.5 : 4, stroke: colour, "stroke-width": 2,
          fill: k > 1 && Object.keys(rate.left_out).length ? "var(--card)" : colour },
        tip(`${group.name}, k=${k}: ${percent(rate.value)} (${percent(rate.low)} to ${percent(rate.high)}), ${rate.denominator} ${rate.unit}`))));
    })), groups.length > 1 && legend(groups.map((group) => [groupColour(group.index), shorten(group.name, 40)])));
};

const BINS = 20;
const plotRewards = (groups, trials) => {
  const valid = trials.filter((trial) => trial.reward !== null && !trial.superseded && Math.abs(trial.reward) < HUGE);
  if (!valid.length) return null;
  let low = 0, high = 1;
  for (const trial of valid) { low = Math.min(low, trial.reward); high = Math.max(high, trial.reward); }
  const left = LABEL, span = WIDTH - left - 8, each = 52;
  const rows = groups.filter((group) => valid.some((trial) => trial.group === group.name));
  const x = (value) => left + ((value - low) / (high - low)) * span;
  return card("Rewards", "number of trials by reward", canvas(rows.length * each + 22,
    rows.map((group, row) => {
      const bins = new Array(BINS).fill(0);
      for (const trial of valid) {
        if (trial.group === group.name) bins[Math.min(BINS - 1, Math.floor(((trial.reward - low) / (high - low)) * BINS))] += 1;
      }
      const most = Math.max(...bins), base = row * each + each - 2;
      return svg("g", null,
        label(0, base - 14, shorten(group.name), { class: "name" }), line(left, base, left + span, base),
        bins.map((count, bin) => {
          const height = (count / most) * (each - 20);
          const from = low + ((high - low) * bin) / BINS, to = low + ((high - low) * (bin + 1)) / BINS;
          const middle = left + ((bin + 0.5) / BINS) * span;
          return count > 0 && svg("g", null, tip(`${group.name}: ${count} from ${number(from)} to ${number(to)}`),
            svg("rect", { x: middle - span / BINS / 2 + 1, y: base - Math.max(height, 2), width: span / BINS - 2, height: Math.max(height, 2), rx: 2, fill: groupColour(group.index) }),
            label(middle, base - Math.max(height, 2) - 4, count, { "text-anchor": "middle", style: { "font-size": "10px" } }));
        }));
    }),
    [low, (low + high) / 2, high].map((value) => label(x(value), rows.length * each + 16, number(value, 2), { "text-anchor": "middle" }))));
};

const plotTimes = (groups, phases) => {
  const rows = groups.filter((group) => Object.keys(group.phases).length);
  if (!rows.length) return null;
  const total = (group) => phases.reduce((sum, phase) => sum + (group.phases[phase]?.mean || 0), 0);
  const most = Math.max(...rows.map(total), 0.1), marks = scaleTo(most), each = 66, left = LABEL;
  const x = (value) => left + (value / Math.max(most, marks[marks.length - 1])) * (WIDTH - left - 46);
  const height = rows.length * each;
  return card("Where the time goes", "mean of each phase, one after the other", canvas(height + 22,
    ticks(marks, x, 0, height, (value) => `${value} s`),
    rows.map((group, row) => {
      let begin = 0;
      return svg("g", null, label(0, row * each + each / 2 + 2, shorten(group.name), { class: "name" }),
        phases.map((phase, index) => {
          const time = group.phases[phase];
          if (!time) return null;
          const start = begin, y = row * each + 5 + index * 14;
          begin += time.mean;
          return svg("g", null,
            tip(`${group.name}, ${PHASE_WORDS[phase]}: mean ${seconds(time.mean)}, median ${seconds(time.median)}, longest ${seconds(time.longest)}, ${counted(time.trials, "trial")}`),
            line(x(begin), y + 11, x(begin), y + 15, { style: { stroke: "var(--soft)" } }),
            svg("rect", { x: x(start), y, width: Math.max(x(begin) - x(start), 1.5), height: 11, rx: 2, fill: `var(--phase-${phase})` }),
            label(x(begin) + 6, y + 10, seconds(time.mean), { style: { "font-size": "11px" } }));
        }));
    })), legend(phases.map((phase) => [`var(--phase-${phase})`, PHASE_WORDS[phase]])));
};

// One trial's phases in their places; steps of a multi-step task lie below each other.
const waterfall = (spans) => {
  if (!spans.length) return null;
  const end = Math.max(...spans.map((span) => span.start + span.seconds), 0.1), marks = scaleTo(end), shown = spans.slice(0, 60);
  const x = (value) => LABEL + 30 + (value / Math.max(end, marks[marks.length - 1])) * (900 - LABEL - 90);
  const height = shown.length * 20;
  return svg("svg", { viewBox: `0 0 900 ${height + 22}`, role: "img" },
    ticks(marks, x, 0, height, (value) => `${value} s`),
    shown.map((span, row) => svg("g", null,
      label(0, row * 20 + 14, shorten(span.step ? `${span.step} · ${PHASE_WORDS[span.phase]}` : PHASE_WORDS[span.phase], 30), { class: "name" }),
      svg("rect", { x: x(span.start), y: row * 20 + 4, width: Math.max(x(span.start + span.seconds) - x(span.start), 1.5), height: 12, rx: 2, fill: `var(--phase-${span.phase})` }),
      label(x(span.start + span.seconds) + 6, row * 20 + 14, seconds(span.seconds), { style: { "font-size": "11px" } }))));
};
