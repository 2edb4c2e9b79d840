"use strict";
// Charts: one look for all, in the colours of the page, with what they show said in words.
(function () {
  const CONFIG = { displayModeBar: false, responsive: false, doubleClick: false, showTips: false };

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }
  sk.colour = colour;
  sk.series = (i) => colour(`c${(i % 8) + 1}`);

  function faint(hex, part) {
    const n = parseInt(hex.slice(1), 16);
    return `rgba(${n >> 16},${(n >> 8) & 255},${n & 255},${part})`;
  }

  // Ticks with units that people read; Plotly's own would say 1e-3 or 5k bytes.
  function ticks(values, kind, log) {
    let low = Infinity, high = -Infinity;
    for (const list of values) for (const v of list) {
      if (v === null || v === undefined) continue;
      if (v < low) low = v;
      if (v > high) high = v;
    }
    if (high === -Infinity) return {};
    const top = Math.max(high, 0) || 1, bottom = Math.min(low, 0);
    const units = kind === "bytes" ? [1, 2, 5] : kind === "seconds" && top > 90 ? [1, 2, 3, 6] : [1, 2, 5];
    const base = kind === "seconds" && top > 90 ? (top > 5400 ? (top > 172800 ? 86400 : 3600) : 60) : 1;
    const span = (top - bottom) / base;
    let step = 10 ** Math.floor(Math.log10(span / 4));
    for (const unit of units.concat(10)) if (span / (step * unit) <= 4.5) { step *= unit; break; }
    const at = [];
    for (let t = Math.ceil(bottom / base / step); t * step <= (top / base) * 1.0001; t += 1) at.push(t * step * base);
    const text = at.map((t) => (t === 0 ? "0" : sk.format[kind](t).replace(/\.0+(?=\D|$)/, "").replace(/(\.\d*?)0+(?=\D|$)/, "$1")));
    return { tickvals: at, ticktext: text, range: [bottom < 0 ? bottom * 1.05 : 0, top * 1.06] };
  }
  sk.ticks = ticks;

  function layout(options) {
    const ink = colour("soft"), grid = colour("grid"), line = colour("line");
    const axis = { color: ink, gridcolor: grid, linecolor: line, zerolinecolor: line, fixedrange: true, automargin: true };
    return {
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 8, r: 12, t: 8, b: 8 }, dragmode: false, hovermode: "x unified",
      hoverlabel: { bgcolor: colour("panel"), bordercolor: line, font: { color: colour("ink"), size: 12 } },
      showlegend: options.legend !== false,
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", traceorder: "normal", font: { size: 12 }, itemclick: false, itemdoubleclick: false },
      xaxis: { ...axis, showgrid: false, zeroline: false, tickformat: ",d", hoverformat: ",d", title: { text: "batch", font: { size: 11 }, standoff: 4 }, nticks: 8, ...options.x },
      yaxis: { ...axis, zeroline: true, nticks: 6, ...options.y },
      ...options.more,
    };
  }

  // Batches are whole: a few of them get a tick each.
  const batchTicks = (at, width) => (at.length < 8 ? { tickmode: "linear", tick0: at[0], dtick: width } : {});

  // Charts one below the other in which a batch is at the same place: the first has a colour bar.
  const BELOW = { margin: { l: 52, r: 68, t: 8, b: 8 } };
  const below = (at, width) => ({ ...batchTicks(at, width), range: [at[0] - 0.5, at[at.length - 1] + width - 0.5] });

  const drawn = new Map(); // of every chart, how to draw it again in other colours or widths

  function box(figure, kind) {
    let made = figure.querySelector(".chart");
    if (!made) {
      made = sk.make("div", { class: `chart ${kind || ""}`, role: "img" });
      figure.append(made);
    }
    const empty = figure.querySelector(".empty");
    if (empty) empty.remove();
    return made;
  }

  sk.empty = function (figure, text) {
    const chart = figure.querySelector(".chart"), details = figure.querySelector("details.data");
    if (chart) { window.Plotly.purge(chart); chart.remove(); }
    if (details) details.remove();
    drawn.delete(figure);
    let made = figure.querySelector(".empty");
    if (!made) figure.append((made = sk.make("p", { class: "empty" })));
    made.textContent = text;
  };

  // The same as a table, for who does not see it, and for who wants the figures.
  function asTable(figure, columns, rows) {
    let details = figure.querySelector("details.data");
    if (!details) {
      const title = figure.querySelector("h3").textContent;
      const table = sk.make("table");
      details = sk.make("details", { class: "data" }, sk.make("summary", {}, "As a table"),
        sk.make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${title} as a table` }, table));
      details.addEventListener("toggle", () => details.open && details.fill());
      figure.append(details);
    }
    const title = figure.querySelector("h3").textContent;
    details.fill = () => sk.table(details.querySelector("table"), title, columns(), rows());
    if (details.open) details.fill();
  }

  function draw(figure, kind, said, make) {
    const chart = box(figure, kind);
    chart.setAttribute("aria-label", said);
    const again = () => {
      const { traces, options } = make();
      window.Plotly.react(chart, traces, layout(options), CONFIG);
    };
    drawn.set(figure, again);
    again();
  }

  sk.redraw = () => { for (const again of drawn.values()) again(); };

  const known = (list) => list.some((v) => v !== null);
  const last = (list) => { for (let i = list.length - 1; i >= 0; i -= 1) if (list[i] !== null) return list[i]; return null; };

  // Lines over batches. `lines` have a name, the mean of every point, and where points stand for
  // several batches, the least and most of these.
  sk.lines = function (figure, at, width, lines, kind, options = {}) {
    const format = sk.format[kind];
    const shown = lines.filter((line) => known(line.mean));
    if (!shown.length) { sk.empty(figure, options.nothing || "Nothing was told of this yet."); return; }
    const ends = at.map((id) => (width > 1 ? `${id.toLocaleString("en")} – ${(id + width - 1).toLocaleString("en")}` : id.toLocaleString("en")));
    const said = shown.map((line) => `${line.name}: ${format(last(line.mean))} now, ${format(Math.max(...(line.max || line.mean).filter((v) => v !== null)))} at most`).join("; ");
    draw(figure, options.size, `${figure.querySelector("h3").textContent}. ${said}.`, () => {
      const traces = [];
      for (const [i, line] of shown.entries()) {
        const tint = sk.series(line.tint === undefined ? i : line.tint);
        const name = sk.chartText(sk.shortened(line.name));
        if (options.stacked) {
          traces.push({ x: at, y: line.mean, name, type: "scatter", mode: "lines", stackgroup: "all",
            line: { color: tint, width: 1 }, fillcolor: faint(tint, 0.55),
            text: line.mean.map(format), hovertemplate: "%{text}" });
          continue;
        }
        if (line.max && width > 1) {
          const edge = { x: at, type: "scatter", mode: "lines", line: { width: 0, color: tint }, showlegend: false, hoverinfo: "skip" };
          traces.push({ ...edge, y: line.min }, { ...edge, y: line.max, fill: "tonexty", fillcolor: faint(tint, 0.22) });
        }
        const spread = line.max && width > 1 ? line.mean.map((m, j) => `${format(m)}  (${format(line.min[j])} – ${format(line.max[j])})`) : line.mean.map(format);
        traces.push({ x: at, y: line.mean, name, type: "scatter", mode: at.length === 1 ? "markers" : "lines",
          line: { color: tint, width: 1.75, dash: line.dash || "solid" }, marker: { color: tint }, text: spread, hovertemplate: "%{text}" });
      }
      if (options.peak && width > 1) {
        traces.push({ x: at, y: options.peak, name: "slowest batch", type: "scatter", mode: "lines", line: { color: colour("ink"), width: 1, dash: "dot" },
          text: options.peak.map(format), hovertemplate: "%{text}" });
      }
      const heights = options.stacked ? [at.map((_, j) => shown.reduce((sum, line) => sum + (line.mean[j] || 0), 0)), options.peak || []]
        : shown.flatMap((line) => [line.max || line.mean, line.min || line.mean]);
      const x = options.below ? below(at, width) : batchTicks(at, width);
      return { traces: traces.concat(options.marks ? options.marks() : []), options: {
        legend: shown.length > 1 || options.legend || Boolean(options.marks), x, y: { ...ticks(heights, kind), ...options.y },
        more: { ...(options.below ? BELOW : {}), ...(options.more ? options.more() : {}) } } };
    });
    asTable(figure,
      () => [["batch", "n"], ...shown.map((line) => [line.name, "n"])],
      () => at.map((_, j) => [ends[j], ...shown.map((line) => format(line.mean[j]))]).reverse().slice(0, 200));
  };

  sk.bars = function (figure, at, width, lines, kind, options = {}) {
    const format = sk.format[kind];
    const shown = lines.filter((line) => line.sum.some((v) => v));
    if (!shown.length) { sk.empty(figure, options.nothing); return; }
    const said = shown.map((line) => `${line.name}: ${format(line.sum.reduce((a, b) => a + (b || 0), 0))} in all`).join("; ");
    draw(figure, options.size, `${figure.querySelector("h3").textContent}. ${said}.`, () => ({
      traces: shown.map((line, i) => ({ x: at, y: line.sum, name: sk.chartText(line.name), type: "bar", width: width * 0.9,
        offset: 0, marker: { color: sk.series(i + 1), line: { width: 0 } }, text: line.sum.map(format), textposition: "none", hovertemplate: "%{text}" })),
      options: { legend: true, more: { barmode: "stack" }, x: batchTicks(at, width),
        y: ticks([at.map((_, j) => shown.reduce((sum, line) => sum + (line.sum[j] || 0), 0))], kind) },
    }));
    asTable(figure, () => [["batch", "n"], ...shown.map((line) => [line.name, "n"])],
      () => at.map((id, j) => [id.toLocaleString("en"), ...shown.map((line) => format(line.sum[j]))]).reverse().slice(0, 200));
  };

  function heatScale() {
    return [[0, colour("heat0")], [0.33, colour("heat1")], [0.67, colour("heat2")], [1, colour("heat3")]];
  }

  sk.heatmap = function (figure, told) {
    const { at, width, instances, group, work_ms: z } = told;
    const names = z.map((_, i) => (group === 1 ? `instance ${i}` : `instances ${i * group} – ${Math.min(instances, (i + 1) * group) - 1}, the busiest`));
    let most = 0, who = 0, when = 0;
    z.forEach((line, i) => line.forEach((v, j) => { if (v !== null && v > most) { most = v; who = i; when = j; } }));
    if (!z.length || !most) { sk.empty(figure, "No instance has told of its work yet."); return; }
    const said = `Work by instance. ${instances} instances; the most was ${sk.format.ms(most)}, at ${names[who]} in batch ${at[when].toLocaleString("en")}.`;
    const high = Math.max(140, Math.min(420, z.length * 16 + 60));
    const chart = box(figure, "");
    chart.style.height = `${high}px`;
    draw(figure, "", said, () => ({
      traces: [{ type: "heatmap", z, x: at.map((id) => id + (width - 1) / 2), y: z.map((_, i) => i * group), colorscale: heatScale(), zmin: 0, zmax: most,
        xgap: 0, ygap: z.length <= 24 ? 1 : 0,
        hovertemplate: "%{customdata}<br>batch %{x:,d}: %{z:,.3~f} ms<extra></extra>", customdata: z.map((line, i) => line.map(() => names[i])),
        colorbar: { thickness: 10, outlinewidth: 0, title: { text: "ms", side: "top", font: { size: 11 } }, tickfont: { size: 11 }, nticks: 4, len: 1, x: 1.01 } }],
      options: { legend: false, x: below(at, width), y: { autorange: "reversed", title: { text: "instance", font: { size: 11 } }, tickformat: ",d", zeroline: false, showgrid: false,
        ...(z.length < 8 ? { dtick: group } : { nticks: 8 }) }, more: { ...BELOW, hovermode: "closest" } },
    }));
    asTable(figure, () => [["instance", "n"], ["last", "n"], ["mean", "n"], ["most", "n"]], () => z.map((line, i) => {
      const there = line.filter((v) => v !== null);
      return [String(i * group), sk.format.ms(last(line)), sk.format.ms(there.reduce((a, b) => a + b, 0) / there.length), sk.format.ms(Math.max(...there))];
    }));
  };

  sk.timeline = function (figure, decided, kinds, first, end) {
    const accepted = decided.filter((d) => d.accepted).length;
    draw(figure, "low", `When decisions were taken. ${accepted} done, ${decided.length - accepted} refused; all are in the table below.`, () => ({
      traces: [false, true].map((done) => {
        const some = decided.filter((d) => d.accepted === done);
        const tints = some.map((d) => sk.series(kinds.indexOf(d.kind)));
        return { x: some.map((d) => d.batch), y: some.map((d) => d.kind), type: "scatter", mode: "markers", name: done ? "done" : "refused",
          marker: { size: done ? 10 : 15, symbol: done ? "circle" : "circle-open", color: done ? tints : colour("soft"), line: { width: done ? 1 : 1.5, color: done ? colour("panel") : colour("soft") } },
          text: some.map((d) => `batch ${d.batch}: ${sk.chartText(sk.shortened(d.subject, 60))} → ${sk.chartText(sk.shortened(d.target, 60))}<br>${wrapped(d.reason)}`),
          hovertemplate: "%{text}<extra></extra>" };
      }),
      options: { legend: false, x: { range: [first - 0.5, end + Math.max(0.5, (end - first) * 0.02)] },
        y: { type: "category", categoryarray: kinds, categoryorder: "array", showgrid: true, range: [-0.6, kinds.length - 0.4] }, more: { hovermode: "closest" } },
    }));
  };

  function wrapped(text) {
    const lines = [];
    for (let rest = text; rest; ) {
      let cut = rest.length <= 70 ? rest.length : rest.lastIndexOf(" ", 70);
      if (cut <= 0) cut = 70;
      lines.push(sk.chartText(rest.slice(0, cut)));
      rest = rest.slice(cut).trim();
    }
    return lines.slice(0, 6).join("<br>");
  }

  const OWN_SHOWN = 6;

  sk.instances = function (figure, told) {
    const named = told.own.slice(0, OWN_SHOWN), others = told.own.slice(OWN_SHOWN);
    const count = told.instances, x = [...Array(count).keys()];
    const spread = (keys) => {
      const y = new Array(count).fill(0);
      for (const key of keys) for (const i of key.instances) y[i] += key.work_ms / key.instances.length;
      return y;
    };
    const parts = [["slots", told.on_slots_ms, x.map((i) => `${told.slots_of[i]} slots`)]];
    for (const key of named) parts.push([`key ${key.key}`, spread([key]), null]);
    if (others.length) parts.push([`${others.length} other keys`, spread(others), null]);
    const all = x.map((i) => parts.reduce((sum, [, y]) => sum + (y[i] || 0), 0));
    const busiest = all.indexOf(Math.max(...all));
    const said = `Who works on what. ${told.slots} slots at ${count} instances; ${told.own.length} keys have places of their own. Instance ${busiest} has the most, ${sk.format.ms(all[busiest])}.`;
    draw(figure, "", said, () => ({
      traces: parts.map(([name, y, text], i) => ({ x, y, type: "bar", name: sk.chartText(sk.shortened(name)),
        marker: { color: i === 0 ? faint(colour("soft"), 0.45) : sk.series(i - 1), line: { width: count <= 64 ? 1 : 0, color: colour("panel") } },
        text: y.map((v, j) => (text ? `${text[j]}, ${sk.format.ms(v)}` : v ? sk.format.ms(v) : "–")), textposition: "none", hovertemplate: "%{text}" })),
      options: { legend: true, x: { title: { text: "instance", font: { size: 11 } }, ...(count <= 16 ? { dtick: 1 } : {}) }, y: ticks([all], "ms"),
        more: { barmode: "stack", bargap: count > 64 ? 0 : 0.15 } },
    }));
    asTable(figure, () => [["instance", "n"], ["slots", "n"], ["work", "n"], ["keys of its own", "text"]], () => x.map((i) => [String(i), sk.format.whole(told.slots_of[i]),
      sk.format.ms(all[i]), told.own.filter((key) => key.instances.includes(i)).slice(0, 8).map((key) => sk.shortened(key.key)).join(", ")]));
  };

  sk.areNumbered = (told) => told.instances <= 100 && told.cell_ms.length <= 512;

  sk.slots = function (figure, told) {
    const cells = told.cell_ms.length, wide = Math.min(figure.clientWidth < 600 ? 16 : 64, cells), lines = Math.ceil(cells / wide);
    const grid = (list, none) => Array.from({ length: lines }, (_, r) => Array.from({ length: wide }, (_, c) => (r * wide + c < cells ? list[r * wide + c] : none)));
    const each = told.slots_per_cell;
    const names = told.cell_instance.map((instance, i) => `${each === 1 ? `slot ${i}` : `slots ${i * each} – ${i * each + each - 1}`}, instance ${instance}`);
    const heaviest = told.cell_ms.indexOf(Math.max(...told.cell_ms));
    const chart = box(figure, "");
    chart.style.height = `${Math.max(90, Math.min(420, lines * 22 + 60))}px`;
    draw(figure, "", `Slots. ${told.slots} of them; the heaviest is ${names[heaviest]}, ${sk.format.ms(told.cell_ms[heaviest])}.`, () => ({
      traces: [{ type: "heatmap", z: grid(told.cell_ms, null), x: [...Array(wide).keys()], y: [...Array(lines).keys()].map((r) => r * wide * each), colorscale: heatScale(), zmin: 0, zmax: Math.max(...told.cell_ms) || 1, xgap: 1, ygap: 1,
        text: grid(told.cell_instance.map(String), ""), texttemplate: sk.areNumbered(told) ? "%{text}" : "", textfont: { size: 10 },
        customdata: grid(names, ""), hovertemplate: "%{customdata}<br>%{z:,.3~f} ms<extra></extra>",
        colorbar: { thickness: 10, outlinewidth: 0, title: { text: "ms", side: "top", font: { size: 11 } }, tickfont: { size: 11 }, nticks: 3, len: 1.1, x: 1.01 } }],
      options: { legend: false, x: { showticklabels: false, ticks: "", title: { text: "" } }, y: { autorange: "reversed", showgrid: false, zeroline: false, title: { text: "slot", font: { size: 11 } }, tickformat: ",d",
        tickvals: [...Array(lines).keys()].filter((r) => lines <= 8 || r % Math.ceil(lines / 8) === 0).map((r) => r * wide * each) }, more: { hovermode: "closest" } },
    }));
    const heaviestFirst = [...names.keys()].sort((a, b) => told.cell_ms[b] - told.cell_ms[a]).slice(0, 200);
    asTable(figure, () => [[each === 1 ? "slot" : "slots from", "n"], ["instance", "n"], ["work", "n"]],
      () => heaviestFirst.map((i) => [sk.format.whole(i * each), String(told.cell_instance[i]), sk.format.ms(told.cell_ms[i])]));
  };

  let waiting = 0;
  new ResizeObserver(() => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      for (const figure of drawn.keys()) window.Plotly.Plots.resize(figure.querySelector(".chart"));
    });
  }).observe(document.querySelector("main"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => sk.redraw());
})();
