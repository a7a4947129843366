/** The budget of a project: its spending, and the form in which admins set it. */

import { call, site } from "../site.js";
import { h } from "../visuals/base/dom.js";
import { focusOnce } from "../visuals/base/focus.js";
import { button, submitButton } from "../visuals/base/glyphs.js";
import { clean } from "../visuals/base/words.js";

const BEYOND = [
  ["tell", "notify admins and leads only"],
  ["no-borrowing", "let its jobs run only within the quota"],
  ["last", "let its jobs beyond the quota go last"],
];

/** The projects, each with its budget or null. */
export function withBudgets({ projects, budgets }) {
  const of = new Map((budgets ?? []).map((budget) => [budget.project, budget]));
  return projects.map((project) => ({ ...project, budget: of.get(project.name) ?? null }));
}

/** The spending of a project's budget; null without one. */
export function drawBudget({ name, budget }) {
  if (!budget) return null;
  const part = Math.min(1, budget.spent / budget.amount);
  return h(
    "p",
    { key: "budget", class: budget.over ? "st-problem mb-1" : "st-muted mb-1", "data-testid": `budget-${name}` },
    h("meter", {
      key: "part",
      min: 0,
      max: 1,
      high: 0.8,
      optimum: 0,
      value: part,
      "aria-label": `Part of the budget of ${clean(name)} that is spent`,
    }),
    ` ${clean(budget.text)}`,
  );
}

/** The button that opens the form of a budget. */
export function budgetButton({ name, budget }, editing) {
  if (!site.admin) return null;
  const label = budget ? "Budget…" : "Set a budget…";
  return button(`budget-${name}-edit`, label, () => editing.ask(`budget ${name}`), {
    disabled: editing.busy(`project ${name}`),
  });
}

/** The form of a budget; null while it is closed. */
export function drawBudgetForm({ name, budget }, editing) {
  if (!editing.asking(`budget ${name}`)) return null;
  const { currency, priced } = editing.prices;
  const path = `projects/${encodeURIComponent(name)}/budget`;
  const submit = (event) => {
    event.preventDefault();
    const data = new FormData(event.target);
    const body = { amount: Number(data.get("amount")), unit: data.get("unit"), beyond: data.get("beyond") };
    return editing.change("project", name, () => call("PUT", path, body));
  };
  const remove = () => editing.change("project", name, () => call("DELETE", path));
  const units = [...(priced ? [["money", clean(currency) || "money"]] : []), ["gpu-hours", "GPU-hours"]];
  return h(
    "form",
    { key: "budgeting", class: "st-ask", "data-testid": `budgeting-${name}`, on: { submit } },
    h(
      "p",
      { key: "words", class: "mb-1" },
      `The budget of ${clean(name)}, with the projects inside it, for each month. Admins and leads are notified at 80 % ` +
        `and at 100 %.${priced ? "" : " A budget in money needs prices: gpu_hour_prices in the configuration."}`,
    ),
    h(
      "label",
      { key: "amount" },
      "Amount ",
      h("input", {
        class: "form-control form-control-sm w-auto",
        name: "amount",
        type: "number",
        min: "0.01",
        step: "0.01",
        required: true,
        value: budget?.amount ?? "",
        hook: focusOnce,
        "data-testid": "budget-amount",
      }),
    ),
    " ",
    choice("unit", "In ", units, budget?.unit),
    " ",
    choice("beyond", "Beyond it ", BEYOND, budget?.beyond),
    h(
      "div",
      { key: "buttons" },
      button("budget-keep", "Not now", () => editing.ask(null)),
      " ",
      budget && button("budget-remove", "Remove it", remove, { disabled: editing.busy(`project ${name}`) }),
      " ",
      submitButton("budget-confirm", "Set the budget", { disabled: editing.busy(`project ${name}`) }),
    ),
  );
}

function choice(name, label, options, chosen) {
  return h(
    "label",
    { key: name },
    label,
    h(
      "select",
      { class: "form-select form-select-sm w-auto d-inline-block", name, "data-testid": `budget-${name}` },
      options.map(([value, words]) => h("option", { key: value, value, selected: value === chosen }, words)),
    ),
  );
}
