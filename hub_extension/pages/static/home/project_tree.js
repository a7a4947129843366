/** Departments and teams, one line each: a bar for each GPU type, use, longest wait, four weeks, and cost. */

import { h } from "../visuals/base/dom.js";
import { button, projectMark } from "../visuals/base/glyphs.js";
import { amount, clean, money } from "../visuals/base/words.js";
import { barScale, byType, projectBar } from "../visuals/charts/project_bar.js";
import { sparkline } from "../visuals/charts/sparkline.js";
import { treeOrder } from "../visuals/views/pool_glance.js";
import { waitWords } from "./wait_words.js";

/** Number of projects from which those inside others begin folded. */
const FOLDED_FROM = 24;
/** The digits that the column of costs has room for at least: those of its head. */
const LEAST_COST = 7;

export class ProjectTree {
  /**
   * @param changed called when the tree has to be drawn again
   * @param open called with the name of a project that was chosen
   */
  constructor(changed, open) {
    this.changed = changed;
    this.open = open;
    this.turned = new Set();
  }

  draw(pool, home) {
    const beside = new Map(home.projects.map((project) => [project.name, project]));
    const lines = treeOrder(pool.projects);
    const parents = new Set(pool.projects.map(({ parent }) => parent));
    const scale = barScale(pool.projects.flatMap(byType), pool.train_gpus);
    const priced = home.projects.some(({ cost }) => cost !== null);
    const heads = ["project", "GPUs", "used", "waits", "4 weeks", ...(priced ? ["cost"] : [])];
    return h(
      "table",
      {
        key: "tree",
        class: "st-home-tree",
        style: { "--st-cost-digits": costDigits(home) },
        "data-testid": "home-projects",
      },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((head) =>
            h(
              "th",
              { key: head, scope: "col", class: COLUMNS[head], title: TITLES[head] ?? null },
              head === "cost" && home.currency ? `cost, ${clean(home.currency)}` : head,
            ),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        this.#visible(lines, parents, pool).map(({ project, depth }) =>
          this.#row(project, depth, beside.get(project.name), { parents, scale, priced, pool }),
        ),
      ),
    );
  }

  #visible(lines, parents, pool) {
    const found = [];
    let hiddenBelow = Number.MAX_SAFE_INTEGER;
    for (const line of lines) {
      if (line.depth > hiddenBelow) continue;
      hiddenBelow = Number.MAX_SAFE_INTEGER;
      found.push(line);
      if (parents.has(line.project.name) && this.#isFolded(line.project.name, pool)) hiddenBelow = line.depth;
    }
    return found;
  }

  #isFolded(name, pool) {
    return this.turned.has(name) !== pool.projects.length >= FOLDED_FROM;
  }

  #row(project, depth, more, { parents, scale, priced, pool }) {
    const { name } = project;
    return h(
      "tr",
      { key: name, "data-testid": `home-project-${name}` },
      h(
        "th",
        { key: "name", scope: "row", style: { "--st-depth": depth } },
        h(
          "span",
          { key: "line", class: "st-home-name" },
          parents.has(name) ? this.#fold(name, pool) : h("span", { key: "fold", class: "st-home-fold" }),
          button(`open-${name}`, projectMark(name, project.colour), () => this.open(name), {
            class: "st-home-open",
            title: clean(name),
          }),
          project.freeze && h("span", { key: "frozen", class: "st-home-tag" }, "frozen"),
        ),
      ),
      h(
        "td",
        { key: "bars", class: "st-home-bars" },
        byType(project).map((of) =>
          h(
            "div",
            { key: `bar ${of.type}`, class: "st-home-bar", "data-tip": barTip(of, lentOf(more, of)) },
            of.type && h("small", { key: "type", class: "st-muted" }, clean(of.type)),
            projectBar({ ...of, lent: lentOf(more, of) }, scale, "bar", false),
          ),
        ),
      ),
      h("td", { key: "used", class: "st-number" }, percentOf(more?.used)),
      h("td", { key: "waits", class: "st-number" }, waitWords(more?.longest_wait)),
      h(
        "td",
        { key: "trend", class: "st-home-trend" },
        more &&
          sparkline(
            more.trend.map((value, at) => [at, value]),
            `GPUs that ${clean(name)} held`,
          ),
      ),
      priced && h("td", { key: "cost", class: "st-number" }, costWords(more)),
    );
  }

  #fold(name, pool) {
    const folded = this.#isFolded(name, pool);
    const turn = () => {
      if (!this.turned.delete(name)) this.turned.add(name);
      this.changed();
    };
    return button(`fold-${name}`, folded ? "▸" : "▾", turn, {
      class: "st-home-fold",
      "aria-expanded": String(!folded),
      "aria-label": `Projects inside ${clean(name)}`,
    });
  }
}

const COLUMNS = {
  project: "st-home-first",
  used: "st-number",
  waits: "st-number",
  "4 weeks": "st-home-trend",
  cost: "st-number st-home-cost",
};
const TITLES = {
  GPUs: "held against the quota; hatched: borrowed; dotted: lent; dashed: waiting",
  used: "of the GPUs held in the last week, the part in which they computed",
  waits: "the longest wait now",
  "4 weeks": "GPUs held on each day",
  cost: "of this month",
};

function costWords(more) {
  return more?.cost ? money(more.cost) : "–";
}

/** The width of the column of costs, in digits: that of the longest. */
function costDigits({ projects }) {
  return Math.max(LEAST_COST, ...projects.map((project) => costWords(project).length)) + 1;
}

function lentOf(more, { type }) {
  const lent = more?.lent ?? {};
  return type === null ? Object.values(lent).reduce((sum, gpus) => sum + gpus, 0) : (lent[type] ?? 0);
}

function barTip({ type, held, borrowed, waiting, quota }, lent) {
  const lines = [
    `${type ? `${clean(type)}: ` : ""}${amount(held)} held of ${quota === null ? "an unlimited quota" : `a quota of ${amount(quota)}`}`,
  ];
  if (borrowed) lines.push(`${amount(borrowed)} of them borrowed`);
  if (lent) lines.push(`${amount(lent)} lent to others`);
  if (waiting) lines.push(`${amount(waiting)} more requested`);
  return lines.join("\n");
}

function percentOf(part) {
  return part === null || part === undefined ? "–" : `${Math.round(100 * part)} %`;
}
