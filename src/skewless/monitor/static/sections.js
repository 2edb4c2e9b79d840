"use strict";
// The parts of the page, each drawn from the views it names.
(function () {
  const { $, make, format } = sk;

  const stat = (view, name) => view.columns[name] || { mean: view.at.map(() => null), sum: view.at.map(() => 0) };
  const line = (view, column, name, more) => ({ name, ...stat(view, column), ...more });
  const part = (view, kind) => Object.keys(view.columns).filter((name) => name.startsWith(kind));

  const flow = {
    throughput(figure, { series }) {
      sk.lines(figure, series.at, series.width, [line(series, "rate", "rows/s")], "count", { legend: false });
    },
    latency(figure, { series }) {
      const phases = part(series, "phase/").map((name) => line(series, name, name.slice(6)));
      sk.lines(figure, series.at, series.width, phases, "ms", { stacked: true, legend: true, peak: stat(series, "ms").max });
    },
    rows(figure, { series }) {
      const inputs = part(series, "rows/");
      const lines = inputs.map((name) => line(series, name, inputs.length > 1 ? name.slice(5) : "in"));
      sk.lines(figure, series.at, series.width, [...lines, line(series, "out", "out", { dash: "dot" })], "count");
    },
    lag(figure, { series }) {
      const lines = [line(series, "lag_s", "behind the latest event")];
      const behind = stat(series, "behind_s").mean.filter((v) => v !== null);
      // Data from long ago is not late: the clock says nothing about it.
      if (behind.length && Math.max(...behind) < 7 * 86400) lines.push(line(series, "behind_s", "behind the clock"));
      sk.lines(figure, series.at, series.width, lines, "seconds", {
        nothing: "There is no watermark yet, or the reports are of a version that told no times." });
    },
    state(figure, { series }) {
      const bytes = stat(series, "state_bytes"), rows = stat(series, "state_rows");
      sk.lines(figure, series.at, series.width, [{ name: "bytes", ...bytes }], "bytes", { legend: true, nothing: "Nothing is kept.",
        marks: () => [{ x: series.at, y: rows.mean, name: "rows (right)", type: "scatter", mode: "lines", yaxis: "y2", line: { color: sk.series(1), width: 1.5, dash: "dot" },
          text: rows.mean.map(format.count), hovertemplate: "%{text} rows" }],
        more: () => ({ yaxis2: { overlaying: "y", side: "right", showgrid: false, zeroline: false, color: sk.colour("soft"), automargin: true, fixedrange: true,
          ...sk.ticks([rows.max || rows.mean], "count") } }) });
    },
    dropped(figure, { series }) {
      sk.bars(figure, series.at, series.width, part(series, "dropped/").map((name) => line(series, name, name.slice(8))), "count",
        { nothing: "No row was late, and none was dropped." });
    },
  };

  const balance = {
    heat(figure, { heat }) { sk.heatmap(figure, heat); },
    ratio(figure, { series, decisions }) {
      const done = decisions.decisions.filter((d) => d.accepted);
      const ratio = stat(series, "busiest");
      const height = (batch) => {
        let j = series.at.length - 1;
        while (j > 0 && series.at[j] > batch) j -= 1;
        return (ratio.max || ratio.mean)[j];
      };
      sk.lines(figure, series.at, series.width, [{ name: "busiest over mean", ...ratio }], "ratio", { size: "low", legend: true,
        below: true, y: { rangemode: "normal" },
        marks: () => [{ x: done.map((d) => d.batch), y: done.map((d) => height(d.batch)), name: "a change", type: "scatter", mode: "markers",
          marker: { color: sk.series(1), size: 8, symbol: "diamond" }, text: done.map((d) => sk.chartText(`${d.kind} ${sk.shortened(d.subject)}`)), hovertemplate: "%{text}" }] });
    },
  };

  function who(key) {
    if (!key.instances) return "–";
    return key.apart ? (key.instances.length > 1 ? `${sk.listed(key.instances, 4)}, split` : `${key.instances[0]}, its own place`) : String(key.instances[0]);
  }

  const keys = {
    shares(figure, { keys: view }) {
      const lines = view.shares.map((share, i) => ({ name: view.keys[i].key, mean: share }));
      sk.lines(figure, view.at, view.width, lines, "percent", { size: "high", legend: true, nothing: "No key stands out." });
      sk.table($("keys-table"), "The heaviest keys over all batches that are shown",
        [["key", "key"], ["share", "n"], ["now", "n"], ["most", "n"], ["since batch", "n"], ["at instance", "key"]],
        view.keys.map((key) => [
          make("button", { type: "button", class: "link", on: { click: () => sk.lookUp(key.key) } }, sk.shortened(key.key, 80)),
          format.percent(key.share), key.now ? format.percent(key.now) : "–", format.percent(key.most), format.whole(key.since), who(key)]));
    },
  };

  sk.showKey = function (told) {
    const found = $("found"), facts = [];
    const add = (name, value) => facts.push(make("dt", {}, name), make("dd", {}, value));
    if (told.slot !== null) {
      add("works on it", told.instances.length > 1 ? `instances ${sk.listed(told.instances, 20)}, split` : `instance ${told.instances[0]}${told.apart ? ", a place of its own" : ""}`);
      add("since", told.since === null ? "the first batch that is known, or before" : `after batch ${format.whole(told.since)}`);
      add("why", told.why);
      add("slot", `${format.whole(told.slot)} (hash ${told.hash})`);
    } else if (told.hash) add("hash", told.hash);
    if (told.most !== null && told.most !== undefined) {
      add("share of the rows", `${told.now ? format.percent(told.now) : "not among the heaviest"} now, ${format.percent(told.most)} at most, first among the heaviest in batch ${format.whole(told.first)}`);
    }
    const parts = [make("p", {}, make("strong", {}, "Key "), make("strong", {}, sk.shortened(told.key, 200)))];
    if (told.slot === null) parts.push(make("p", {}, told.why));
    if (facts.length) parts.push(make("dl", { class: "facts" }, ...facts));
    if (told.decisions && told.decisions.length) {
      const table = make("table");
      sk.table(table, "What was decided about this key and its slot", [["after batch", "n"], ["what", ""], ["to", ""], ["why", "text"]],
        told.decisions.map((d) => ({ cells: [format.whole(d.batch), `${d.kind} ${sk.shortened(d.subject)}${d.accepted ? "" : " (refused)"}`, d.target, d.reason], class: d.accepted ? "" : "refused" })));
      parts.push(make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Decisions about this key" }, table));
    }
    found.replaceChildren(...parts);
  };

  const decisions = {
    timeline(figure, { decisions: view, series }) {
      const all = view.decisions;
      const note = $("decisions-note");
      $("decisions-list").hidden = !all.length;
      if (!all.length) { sk.empty(figure, "No change of balance was proposed."); return; }
      const kinds = [...new Set(all.map((d) => d.kind))].sort();
      const at = series.at;
      sk.timeline(figure, all, kinds, at[0], at.length ? at[at.length - 1] + series.width - 1 : 0);
      const counted = Object.entries(view.kinds).map(([kind, n]) => `${format.whole(n)} ${kind}${n > 1 ? "s" : ""}`).join(", ") || "nothing";
      note.textContent = `${counted} done, ${format.whole(view.refused)} refused` + (view.all > all.length ? `; the last ${format.whole(all.length)} are listed` : "") +
        ". Rows are stored rows that came along; busiest/mean is that of the batch before, and the median of the five after.";
      sk.table($("decisions-table"), "Decisions, the latest first",
        [["after batch", "n"], ["what", ""], ["of", "key"], ["from", ""], ["to", ""], ["rows", "n"], ["busiest/mean", "n"], ["why", "text"]],
        all.map((d) => ({ class: d.accepted ? "" : "refused", cells: [format.whole(d.batch), d.accepted ? d.kind : `${d.kind}, refused`, sk.shortened(d.subject, 80),
          d.source.replace(/^instance /, ""), sk.shortened(d.target.replace(/^instances? /, ""), 40), format.count(d.rows),
          d.accepted && d.after !== null ? `${format.ratio(d.before)} → ${format.ratio(d.after)}` : format.ratio(d.before), d.reason] })));
    },
  };

  const placement = {
    instances(figure, { placement: view }) {
      const slots = $("slots");
      slots.hidden = !view.placed;
      if (!view.strategy) {
        sk.empty(figure, view.of_several ? "The last operator does not place its work by slots: choose another one above." : "This operator does not place its work by slots.");
        return;
      }
      if (!view.placed) { sk.empty(figure, `${view.strategy}: every instance takes part in every range of keys (${view.instances} instances, ${view.slots} slots).`); return; }
      $("instances-note").textContent = `work of the last batch, in milliseconds; ${view.strategy}, ${format.whole(view.slots)} slots, ${view.own.length === 1 ? "1 key has a place of its own" : `${format.whole(view.own.length)} keys have places of their own`}`;
      $("slots-note").textContent = "equal ranges of hashes, in order; the stronger the colour, the more work" + (view.slots_per_cell > 1 ? `; ${view.slots_per_cell} in each cell` : sk.areNumbered(view) ? "; the numbers are instances" : "");
      sk.instances(figure, view);
      sk.slots(slots, view);
    },
  };

  const hosts = {
    traffic(figure, { hosts: view }) {
      sk.lines(figure, view.at, view.width, view.hosts.map((h) => ({ name: h.host, mean: h.fetched })), "bytes",
        { legend: true, nothing: "The state lies on a local disk: nothing is fetched." });
      const table = $("hosts-table");
      table.closest(".panel").hidden = !view.hosts.length;
      sk.table(table, "Bytes and requests of each host in the mean batch",
        [["host", "key"], ["fetched", "n"], ["written", "n"], ["requests", "n"], ["cache hits", "n"]],
        view.hosts.map((h) => [h.host, format.bytes(h.fetched_bytes), format.bytes(h.written_bytes), format.count(h.requests),
          h.hits + h.misses ? format.percent(h.hits / (h.hits + h.misses)) : "–"]));
    },
  };

  // Which figure is drawn how, and from which views.
  sk.figures = {};
  const needs = { ratio: ["series", "decisions"], timeline: ["decisions", "series"], heat: ["heat"], shares: ["keys"], instances: ["placement"], traffic: ["hosts"] };
  for (const group of [flow, balance, keys, decisions, placement, hosts]) {
    for (const [id, drawIt] of Object.entries(group)) sk.figures[id] = { views: needs[id] || ["series"], draw: (views) => drawIt($(id), views) };
  }

  function tile(name, [value, unit], sub, mood, extra) {
    return make("div", { class: "tile" }, make("dt", {}, name),
      make("dd", { class: `value ${mood || ""}` }, value, unit ? make("small", {}, unit) : null),
      make("dd", { class: "sub" }, sub || "\u00a0", extra || null));
  }

  function sparkline(values) {
    const there = values.filter((v) => v !== null);
    if (there.length < 2) return null;
    const most = Math.max(...there) || 1;
    const points = values.map((v, i) => `${((i / (values.length - 1)) * 100).toFixed(1)},${(20 - (18 * (v || 0)) / most).toFixed(1)}`);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 100 22");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", `M${points.join("L")}`);
    svg.append(path);
    return svg;
  }

  const mood = (ratio) => (ratio > 2 ? "is-bad" : ratio > 1.3 ? "is-warn" : "is-good");

  sk.showSummary = function (query, isStill) {
    document.title = `${sk.title(query)} · skewless`;
    $("title").textContent = sk.title(query);
    const row = query.row || {};
    const ended = row.ended_s ? (isStill ? `, ended ${sk.clock(row.ended_s)}` : `, ${sk.ago(query.now_s - row.ended_s)}`) : "";
    $("where").textContent = [query.name, query.checkpoint].filter(Boolean).join(" · ") + (query.last_batch >= 0 ? ` · batch ${format.whole(query.last_batch)}${ended}` : "") +
      (query.waiting ? ` · reading ${format.whole(query.waiting)} older reports` : "");
    $("verdict").textContent = [query.verdict, ...(query.idle || []).map((name) => `${name} is idle`)].filter(Boolean).join("; ");
    $("loss").hidden = !query.loss;
    $("loss").textContent = query.loss ? `Rows are lost in the last batch: ${query.loss}` : "";
    const tiles = $("tiles");
    if (!query.row) {
      tiles.replaceChildren();
      $("verdict").textContent = query.status === "here" ? (query.waiting ? "Reading …" : "No batch has been committed yet.") : "Nothing is known of it.";
      return;
    }
    const [rate, unit] = sk.parts.count(row.rate);
    const lost = row.rows ? row.dropped / row.rows : 0;
    tiles.replaceChildren(
      tile("Throughput", [rate, `${unit} rows/s`], "", "", sparkline(query.rates)),
      tile("Batch time", sk.parts.ms(row.ms), `${format.count(row.rows)} rows in, ${format.count(row.out)} out`),
      tile("Watermark lag", sk.parts.seconds(row.lag_s), row.lag_s === null || row.lag_s === undefined ? "no watermark yet" : "behind the latest event"),
      tile("State", sk.parts.bytes(row.state_bytes), `${format.count(row.state_rows)} rows, ${format.count(row.segments)} files`),
      tile("Busiest over mean", sk.parts.ratio(row.busiest), `${format.whole(row.instances)} instance${row.instances === 1 ? "" : "s"}`, row.instances > 1 ? mood(row.busiest) : ""),
      tile("Dropped", sk.parts.count(row.dropped), `rows, ${format.count(row.late)} of them late`, lost > 0.01 ? "is-bad" : ""),
    );
  };

  sk.showAll = function (queries, chosen, choose) {
    $("all").hidden = queries.length < 2;
    if (queries.length < 2) return;
    sk.table($("all-table"), "All queries",
      [["query", "key"], ["operators", "path"], ["last batch", "n"], ["ended", "n"], ["rows/s", "n"], ["batch time", "n"], ["lag", "n"], ["state", "n"], ["busiest/mean", "n"], ["dropped", "n"]],
      queries.map((query, i) => {
        const row = query.row || {};
        return { "aria-current": i === chosen ? "true" : null, cells: [
          make("button", { type: "button", class: "link", on: { click: () => choose(i) } }, sk.title(query)), query.name || "–",
          query.last_batch >= 0 ? format.whole(query.last_batch) : "–", sk.statusText(query), format.count(row.rate), format.ms(row.ms), format.seconds(row.lag_s),
          format.bytes(row.state_bytes), format.ratio(row.busiest), format.count(row.dropped)] };
      }));
  };

  sk.statusText = function (query) {
    if (query.status !== "here") return query.status;
    const ended = query.row && query.row.ended_s;
    return ended ? sk.ago(query.now_s - ended) : "here";
  };

  sk.showFacts = function (facts) {
    $("facts").replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  };
})();
