/* What the page of the admin API and that of a replay's report are made of: numbers as people read
 * them, elements, tables and charts. Text that comes from elsewhere is never read as markup. */
"use strict";

/* --- numbers --- */

export const count = (n) => n.toLocaleString("en-US");

/* In tenths, rounded; what is not nothing is not shown as nothing. */
export function percent(part, whole) {
  if (whole === 0) {
    return "";
  }
  const tenths = Math.floor((part * 2000 + whole) / (2 * whole));
  return tenths === 0 && part > 0 ? "<0.1\u00a0%" : `${(tenths / 10).toFixed(1)}\u00a0%`;
}

/* The two greatest units that it has. */
export function duration(us) {
  const units = [["d", 86400e6], ["h", 3600e6], ["m", 60e6], ["s", 1e6], ["ms", 1e3], ["us", 1]];
  const first = units.findIndex(([, size]) => us >= size);
  if (first < 0) {
    return "0s";
  }
  const words = [];
  for (const [name, size] of units.slice(first, first + 2)) {
    if (us >= size) {
      words.push(`${Math.floor(us / size)}${name}`);
      us %= size;
    }
  }
  return words.join(" ");
}

/* --- elements --- */

export function element(name, kind, ...children) {
  const made = document.createElement(name);
  if (kind) {
    made.className = kind;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const section = (title, ...children) =>
  element("section", "", element("h2", "", ...[title].flat()), ...children);

export function list(...items) {
  return element("ul", "", ...items.map((item) => element("li", "", item)));
}

export function button(text, onClick) {
  const made = element("button", "", text);
  made.type = "button";
  made.addEventListener("click", onClick);
  return made;
}

export function selectOf(options) {
  const made = element("select", "");
  made.append(...options.map((text) => element("option", "", text)));
  return made;
}

/* An input with its label. */
export function field(id, label, input, kind) {
  input.id = id;
  const made = element("label", `field ${kind || ""}`, label, input);
  made.htmlFor = id;
  return made;
}

/* In a colour of the theme. */
export function coloured(name) {
  const made = element("i", "");
  made.style.background = `var(--${name})`;
  return made;
}

export function bar(n, most, colour) {
  const made = coloured(colour);
  made.style.width = `${Math.floor((n * 1000) / most) / 10}%`;
  return n > 0 ? made : "";
}

export function card(kind, shown, name, part) {
  const text = element("span", "", name);
  if (part) {
    text.append(", ", element("i", "", part));
  }
  return element("div", `card ${kind}`, element("b", "", shown), text);
}

/* Columns: [title, kind, what is shown of a row]. */
export function table(columns, rows, caption) {
  const head = columns.map(([title, kind]) => {
    const made = element("th", kind, title);
    made.scope = "col";
    return made;
  });
  const body = rows.map((row) =>
    element("tr", "", ...columns.map(([, kind, shown]) => element("td", kind, shown(row)))));
  const made = element("table", "", caption ? element("caption", "", caption) : "",
    element("thead", "", element("tr", "", ...head)), element("tbody", "", ...body));
  const wide = element("div", "wide", made);
  wide.tabIndex = 0; /* it may be scrolled */
  wide.setAttribute("role", "region");
  wide.setAttribute("aria-label", caption || columns[0][0] || "table");
  return wide;
}

/* A table of rows by name, with how many were denied of how many. */
export function deniedTable(title, first, rows,
  {whole, wholeTitle, part, partTitle, colour, last, caption}) {
  const most = Math.max(1, ...rows.map((row) => row[part]));
  return table([
    [title, "", first],
    [wholeTitle, "number", (row) => count(row[whole])],
    [partTitle, "number", (row) => count(row[part])],
    ["share", "number", (row) => percent(row[part], row[whole])],
    ["", "bar", (row) => bar(row[part], most, colour(row))],
    ...last,
  ], rows, caption);
}

/* --- charts --- */

export const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/* What draws each chart, in the colours of the theme. */
const charts = new Map();

/* Draw all charts anew, as when the theme has changed. */
export function drawCharts() {
  for (const [make, drawn] of charts) {
    drawn?.destroy();
    charts.set(make, make());
  }
}

/* Add what drawCharts() draws. Returns what gives the chart; null: it is not drawn yet. */
export function addChart(make) {
  charts.set(make, null);
  return () => charts.get(make);
}

/* Forget the charts whose canvas is in @element, which goes. */
export function dropCharts(element) {
  for (const [make, drawn] of charts) {
    if (drawn !== null && element.contains(drawn.canvas)) {
      drawn.destroy();
      charts.delete(make);
    }
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);

/* Options of a chart over time. Ticks and titles are made of the labels, by @tick and @title. */
export function chartOptions({stacked, tick, title, value}) {
  return {
    animation: false,
    maintainAspectRatio: false,
    interaction: {mode: "index", intersect: false},
    scales: {
      x: {
        stacked,
        grid: {display: false},
        ticks: {
          color: colour("quiet"), maxRotation: 0, autoSkipPadding: 48,
          callback(i) { return tick(this.getLabelForValue(i)); },
        },
      },
      y: {
        stacked, beginAtZero: true, grid: {color: colour("line")},
        ticks: {color: colour("quiet"), callback: value, maxTicksLimit: 6},
      },
    },
    plugins: {
      legend: {display: false},
      tooltip: {
        callbacks: {
          title: ([item]) => title(item.label),
          label: (item) => `${item.dataset.label}: ${value(item.raw)}`,
        },
      },
    },
  };
}

/* A chart's canvas with what it shows said for those who do not see it. */
export function canvasOf(title) {
  const canvas = element("canvas", "");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", title);
  return canvas;
}

/* Series: [name, colour]. */
export function legend(series) {
  return element("p", "quiet legend", ...series.map(([label, name]) =>
    element("span", "", coloured(name), ` ${label}`)));
}
