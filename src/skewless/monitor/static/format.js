"use strict";
// Numbers as people read them, and elements made of text: nothing here is ever parsed as HTML.
const sk = {};

(function () {
  function digits(x) {
    const size = Math.abs(x);
    return x.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0);
  }

  const missing = (x) => x === null || x === undefined || Number.isNaN(x);

  function scaled(x, units, base) {
    for (const [size, unit] of units) if (Math.abs(x) >= size) return [digits(x / size), unit];
    return [Number.isInteger(x) ? String(x) : digits(x), base];
  }

  const COUNTS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]].map(([s, u]) => [u === "k" ? 1e3 : s, u, s]);

  sk.parts = {
    count(x) {
      if (missing(x)) return ["–", ""];
      for (const [by, unit, from] of COUNTS) if (Math.abs(x) >= from) return [digits(x / by), unit];
      return [Math.abs(x) < 10 && !Number.isInteger(x) ? digits(x) : Math.round(x).toLocaleString("en"), ""];
    },
    bytes(x) {
      if (missing(x)) return ["–", ""];
      return scaled(Math.round(x), [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]], "B");
    },
    ms(x) {
      if (missing(x)) return ["–", ""];
      if (x < 10) return [x.toFixed(1), "ms"];
      if (x < 1000) return [x.toFixed(0), "ms"];
      return x < 60000 ? [digits(x / 1000), "s"] : sk.parts.seconds(x / 1000);
    },
    seconds(x) {
      if (missing(x)) return ["–", ""];
      const size = Math.abs(x);
      if (size < 60) return [digits(x), "s"];
      if (size < 3600) return [digits(x / 60), "min"];
      if (size < 48 * 3600) return [digits(x / 3600), "h"];
      return [digits(x / 86400), "days"];
    },
    ratio: (x) => [missing(x) ? "–" : x.toFixed(2), ""],
    percent(x) {
      if (missing(x)) return ["–", ""];
      const p = x * 100;
      return [p >= 99.95 ? p.toFixed(0) : p < 10 ? p.toFixed(2) : p.toFixed(1), "%"];
    },
  };
  sk.format = {};
  for (const kind of Object.keys(sk.parts)) {
    sk.format[kind] = (x) => sk.parts[kind](x).filter(Boolean).join("\u00a0");
  }
  sk.format.whole = (x) => (missing(x) ? "–" : Math.round(x).toLocaleString("en"));

  sk.shortened = (text, length = 40) => (text.length > length ? text.slice(0, length - 1) + "…" : text);

  // Charts take a little markup in their texts: a key must not be taken for it.
  sk.chartText = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  sk.listed = function (numbers, most = 6) {
    const shown = numbers.slice(0, most).join(", ");
    return numbers.length > most ? `${shown} and ${numbers.length - most} more` : shown;
  };

  sk.clock = (seconds) => new Date(seconds * 1000).toLocaleString("en", { dateStyle: "medium", timeStyle: "medium" });

  sk.ago = function (seconds) {
    if (seconds < 1.5) return "just now";
    return sk.format.seconds(Math.round(seconds)).replace(/\.\d+/, "") + " ago";
  };

  // A query goes by the folder of its checkpoint; many of these are just called checkpoint.
  sk.title = function (query) {
    const parts = query.checkpoint.split("/").filter(Boolean);
    const isPlain = /^(checkpoint|checkpoints|ckpt|_checkpoint)$/i.test(parts[parts.length - 1] || "");
    return parts.slice(isPlain ? -2 : -1).join("/") || query.checkpoint;
  };

  sk.$ = (id) => document.getElementById(id);

  sk.make = function (tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "on") for (const [event, call] of Object.entries(value)) made.addEventListener(event, call);
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  };

  sk.table = function (table, caption, columns, rows) {
    // Columns are [heading, class]; rows are lists of cells, or {cells, ...attributes}.
    const head = sk.make("tr", {}, ...columns.map(([name, kind]) => sk.make("th", { scope: "col", class: kind }, name)));
    const body = rows.map((row) => {
      const { cells, ...attributes } = Array.isArray(row) ? { cells: row } : row;
      return sk.make("tr", attributes, ...cells.map((cell, i) => sk.make("td", { class: columns[i][1] }, cell)));
    });
    // Who is at a button stays there.
    const place = [...table.querySelectorAll("button")].indexOf(document.activeElement);
    table.replaceChildren(
      sk.make("caption", { class: "quiet" }, caption),
      sk.make("thead", {}, head),
      sk.make("tbody", {}, ...body),
    );
    const button = place < 0 ? null : table.querySelectorAll("button")[place];
    if (button) button.focus({ preventScroll: true });
  };
})();
