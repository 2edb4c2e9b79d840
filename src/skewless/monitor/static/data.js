"use strict";
// What is known of a query, kept up to date by asking only for what is new.
(function () {
  // The lists of a view that go along with its points, by name.
  const LISTS = {
    series: (view) => Object.entries(view.columns).flatMap(([name, stats]) =>
      Object.entries(stats).map(([stat, list]) => [`${name} ${stat}`, list])),
    heat: (view) => view.work_ms.map((list, line) => [`${line}/${view.group}/${view.work_ms.length}`, list]),
    keys: (view) => view.shares.map((list, i) => [view.keys[i].key, list]),
    hosts: (view) => view.hosts.flatMap((h) => [[`${h.host} fetched`, h.fetched], [`${h.host} written`, h.written]]),
  };

  // Put new points behind old ones; false if they do not fit, and all has to be asked for again.
  function joined(name, old, fresh) {
    if (old.width !== fresh.width) return false;
    const before = new Map(LISTS[name](old));
    const after = LISTS[name](fresh);
    if (before.size !== after.length || after.some(([key]) => !before.has(key))) return false;
    const until = fresh.at.length ? fresh.at[0] : Infinity;
    let from = 0, end = old.at.length;
    while (end && old.at[end - 1] >= until) end -= 1;
    while (from < end && old.at[from] < fresh.first) from += 1;
    const put = (past, list) => past.slice(from, end).concat(list);
    for (const [key, list] of after) list.splice(0, list.length, ...put(before.get(key), list));
    fresh.at = put(old.at, fresh.at);
    return true;
  }

  class Live {
    constructor() {
      this.views = {};
      this.has = { generation: -1, version: -1, last: -1 };
      this.asked = "";
    }

    forget() { this.views = {}; this.has = { generation: -1, version: -1, last: -1 }; }

    async state(shown, wanted) {
      const asked = JSON.stringify(shown);
      if (asked !== this.asked) this.forget();
      this.asked = asked;
      const want = wanted.map((name) => (this.views[name] ? `${name}:${Math.max(0, this.has.last)}` : name)).join(",");
      const query = new URLSearchParams({ ...shown, want, generation: this.has.generation, version: this.has.version });
      const told = await this.ask(`api/state?${query}`);
      if (asked !== this.asked) return null; // something else is shown by now
      const changed = [];
      for (const [name, view] of Object.entries(told.views)) {
        const old = this.views[name];
        const fits = view.whole || !view.at || (old && joined(name, old, view));
        if (fits) this.views[name] = view;
        else delete this.views[name];
        if (fits) changed.push(name);
      }
      const now = told.queries[shown.query];
      // A view that was not asked for now is too old to be gone on with.
      if (now.version !== this.has.version || now.generation !== this.has.generation) {
        for (const name of Object.keys(this.views)) if (!(name in told.views)) delete this.views[name];
      }
      this.has = { generation: now.generation, version: now.version, last: now.last_batch };
      return { queries: told.queries, changed };
    }

    async about(query) { return this.ask(`api/about?query=${query}`); }

    async key(query, operator, value) {
      return this.ask(`api/key?${new URLSearchParams({ query, operator, value })}`);
    }

    async ask(path) {
      const answer = await fetch(path, { headers: { accept: "application/json" } });
      if (!answer.ok) throw new Error(`${answer.status}: ${(await answer.text()).trim()}`);
      return answer.json();
    }
  }

  // A run that is over, all in the page itself.
  class Still {
    constructor(told) { this.told = told; this.views = {}; this.asked = ""; }

    async state(shown) {
      const scope = this.told.scopes[shown.operator] || this.told.scopes[""];
      const changed = this.asked === shown.operator && Object.keys(this.views).length ? [] : Object.keys(scope.views);
      this.asked = shown.operator;
      this.views = scope.views;
      return { queries: [scope.overview], changed };
    }

    async about() { return this.told.about; }

    async key(query, operator, value) {
      const scope = this.told.scopes[operator] || this.told.scopes[""];
      const known = Object.hasOwn(scope.lookups, value);
      return known ? scope.lookups[value] : { key: value, hash: null, slot: null, why: "This page knows only the keys that were among the heaviest." };
    }
  }

  sk.source = function () {
    const told = sk.$("skewless-run");
    return told ? new Still(JSON.parse(told.textContent)) : new Live();
  };
})();
