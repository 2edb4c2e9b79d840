"use strict";
// What is shown, and when it is asked for again.
(function () {
  const { $ } = sk;
  const EVERY_MS = 2000, SOON_MS = 400, QUIET_S = 60;
  const source = sk.source();
  const isStill = Boolean($("skewless-run"));
  const shown = { query: 0, operator: "", batches: 0, points: 400 };
  let isPaused = false, timer = 0, due = Infinity, isAsking = false, factsOf = "", toldOf = null, areCharts = Boolean(window.Plotly);

  const visible = new Set();
  const watcher = new IntersectionObserver((entries) => {
    let isNew = false;
    for (const entry of entries) {
      if (!entry.isIntersecting) visible.delete(entry.target.id);
      else { visible.add(entry.target.id); isNew = true; }
    }
    if (isNew) soon(0);
  }, { rootMargin: "120px 0px" });

  // Ask again after a while; who wants it sooner is not put off by who can wait.
  function soon(ms) {
    const at = performance.now() + ms;
    if (at >= due) return;
    clearTimeout(timer);
    due = at;
    timer = setTimeout(round, ms);
  }

  async function round() {
    due = Infinity;
    if (isAsking) { soon(SOON_MS); return; }
    isAsking = true;
    let wait = EVERY_MS;
    try {
      const figures = [...visible].map((id) => sk.figures[id]).filter(Boolean);
      const wanted = [...new Set(figures.flatMap((figure) => figure.views))];
      const told = await source.state(shown, wanted);
      if (told) {
        show(told.queries, told.changed);
        if (told.queries[shown.query].waiting || wanted.some((name) => !source.views[name])) wait = SOON_MS;
      } else wait = 0;
      silent(false);
    } catch (error) {
      silent(true, error);
    } finally {
      isAsking = false;
    }
    if (isStill) { if (wait === SOON_MS) soon(wait); return; }
    if (!document.hidden && !isPaused) soon(wait);
  }

  const stamps = {}; // of every view, how often it has changed
  const drawn = new Map(); // of every figure, the stamps of what it shows

  // The chart library is large: what needs no chart is shown before it runs.
  function loadCharts() {
    const script = sk.make("script", { src: "assets/plotly.js", on: { load: () => soon(0) } });
    requestAnimationFrame(() => setTimeout(() => document.head.append(script)));
    areCharts = true;
  }

  function show(queries, changed) {
    const query = queries[shown.query];
    for (const name of changed) stamps[name] = (stamps[name] || 0) + 1;
    sk.showAll(queries, shown.query, choose);
    sk.showSummary(query, isStill);
    controls(queries, query);
    pulse(query);
    tell(query);
    for (const id of window.Plotly ? Object.keys(sk.figures) : []) {
      const { views, draw } = sk.figures[id];
      const isThere = views.every((name) => source.views[name]);
      if (!visible.has(id) || !isThere) continue;
      const stamp = views.map((name) => stamps[name]).join();
      if (drawn.get(id) !== stamp) {
        draw(source.views);
        drawn.set(id, stamp);
      }
    }
    if (!areCharts) loadCharts();
    const known = `${shown.query} ${query.generation} ${query.status}`;
    if (factsOf !== known && query.status === "here") {
      factsOf = known;
      source.about(shown.query).then((told) => sk.showFacts(told.facts), () => { factsOf = ""; });
    }
  }

  function fill(select, options, value) {
    const now = JSON.stringify(options);
    if (select.dataset.options !== now) {
      select.dataset.options = now;
      select.replaceChildren(...options.map(([key, name]) => sk.make("option", { value: key }, name)));
    }
    select.value = String(value);
  }

  function controls(queries, query) {
    $("query-control").hidden = queries.length < 2;
    fill($("query"), queries.map((one, i) => [String(i), `${i + 1}: ${sk.title(one)}`]), shown.query);
    $("operator-control").hidden = !query.operators.length;
    if (shown.operator && !query.operators.includes(shown.operator)) shown.operator = "";
    fill($("operator"), [["", "whole query"], ...query.operators.map((name) => [name, name])], shown.operator);
  }

  function pulse(query) {
    const ended = query.row && query.row.ended_s;
    const age = ended ? query.now_s - ended : null;
    let state = "live", text = "following";
    if (isStill) { state = "still"; text = "a finished report"; }
    else if (query.status === "gone") { state = "gone"; text = query.seen_s ? "checkpoint is gone" : "no checkpoint yet"; }
    else if (query.status === "unreadable") { state = "gone"; text = "cannot be read"; }
    else if (isPaused) { state = "quiet"; text = "paused"; }
    else if (query.last_batch < 0) { state = "quiet"; text = "no batch yet"; }
    else if (age !== null && age > QUIET_S) { state = "quiet"; text = `last batch ${sk.ago(age)}`; }
    $("pulse").dataset.state = state;
    if ($("pulse-text").textContent !== text) $("pulse-text").textContent = text;
    const banner = $("banner");
    banner.hidden = query.status === "here";
    const said = query.status === "gone" && !query.seen_s ? `There is no checkpoint of a skewless query at ${query.checkpoint} yet. This page goes on when there is.`
      : query.status === "gone" ? `The checkpoint ${query.checkpoint} is gone. It was there ${sk.ago(query.now_s - query.seen_s)}; what is shown is from then. This page goes on when it comes back.`
      : query.status === "unreadable" ? `The checkpoint ${query.checkpoint} cannot be read: ${query.why}` : "";
    if (banner.textContent !== said) banner.textContent = said;
  }

  // What happens is said to who does not look, too: the latest change, once.
  function tell(query) {
    const view = source.views.decisions;
    const last = view && view.decisions.find((d) => d.accepted);
    const now = last ? `${last.kind} of ${sk.shortened(last.subject)} after batch ${last.batch}` : "";
    if (toldOf !== null && now && now !== toldOf) $("said").textContent = now;
    if (view) toldOf = now;
  }

  function silent(isSilent, error) {
    if (!isSilent) return;
    $("pulse").dataset.state = "gone";
    $("pulse-text").textContent = "no answer";
    $("banner").hidden = false;
    $("banner").textContent = `The dashboard does not answer (${error.message}). This page asks again.`;
  }

  function choose(query) {
    shown.query = query;
    shown.operator = "";
    again();
    $("title").scrollIntoView({ block: "center" });
  }

  function again() {
    drawn.clear();
    toldOf = null;
    $("found").replaceChildren();
    soon(0);
  }

  sk.lookUp = function (value) {
    $("key").value = value;
    look();
    $("lookup").scrollIntoView({ block: "nearest" });
  };

  async function look() {
    const value = $("key").value.trim();
    if (!value) return;
    try {
      sk.showKey(await source.key(shown.query, shown.operator, value));
    } catch (error) {
      $("found").replaceChildren(sk.make("p", {}, `That could not be looked up: ${error.message}`));
    }
  }

  $("lookup").addEventListener("submit", (event) => { event.preventDefault(); look(); });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("query").addEventListener("change", (event) => choose(Number(event.target.value)));
  $("operator").addEventListener("change", (event) => { shown.operator = event.target.value; again(); });
  $("range").addEventListener("change", (event) => { shown.batches = Number(event.target.value); again(); });
  $("pause").addEventListener("click", () => {
    isPaused = !isPaused;
    $("pause").setAttribute("aria-pressed", String(isPaused));
    if (!isPaused) soon(0);
    else $("pulse-text").textContent = "paused";
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !isPaused) soon(0); });

  if (isStill) { $("range-control").hidden = true; $("pause").hidden = true; }
  shown.points = Math.max(150, Math.min(600, Math.round(document.querySelector("main").clientWidth / 2)));
  for (const id of Object.keys(sk.figures)) watcher.observe($(id));
  round();
})();
