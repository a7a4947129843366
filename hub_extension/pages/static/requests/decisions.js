/** Requests of others that the viewer decides: approved as they are or with other values, or refused. */

import { attempted, call } from "../site.js";
import { untilOf, untilWords } from "../until.js";
import { h } from "../visuals/base/dom.js";
import { when } from "../visuals/base/glyphs.js";
import { clean, fieldTime } from "../visuals/base/words.js";

const NUMBERS = { quota: "quota", limit: "limit", build_quota: "build quota" };
const MOST_REASON = 500;

export class Decisions {
  /**
   * @param changed called when there is something new to draw
   * @param decided called after a decision, which may have changed projects and people
   */
  constructor(changed, decided) {
    this.changed = changed;
    this.decided = decided;
    this.items = [];
    this.busy = new Set();
    this.refusals = new Map();
  }

  async read() {
    const found = await attempted(() => call("GET", "requests"));
    this.items = found?.items.filter((request) => request.state === "pending" && request.may_decide) ?? this.items;
    this.changed();
  }

  /** The list; `now`: seconds since the epoch. */
  draw(now) {
    return h(
      "ul",
      { key: "decisions", class: "st-requests", "data-testid": "decisions" },
      this.items.map((request) => this.#entry(request, now)),
    );
  }

  #entry(request, now) {
    const { number, user, what, why, present, obstacle } = request;
    const submit = (event) => {
      event.preventDefault();
      const refuses = event.submitter?.name === "refuse";
      return this.#decide(request, refuses ? "refuse" : "approve", bodyOf(request, event.target, refuses));
    };
    const refusal = this.refusals.get(number);
    return h(
      "li",
      { key: String(number), id: `request-${number}`, class: "st-request", "data-testid": "decision" },
      h(
        "p",
        { key: "what" },
        h("strong", { key: "who" }, clean(user)),
        ` asks for ${clean(what)} `,
        h(
          "span",
          { key: "when", class: "st-muted" },
          when(request.at, now),
          `, waits ${untilWords(request.expires, now)}`,
        ),
      ),
      h("p", { key: "why" }, clean(why)),
      (present || obstacle) &&
        h(
          "p",
          { key: "present", class: obstacle ? "st-problem" : "st-muted" },
          `${clean(present)}${obstacle ? ` It cannot be granted as it is: ${clean(obstacle)}` : ""}`.trim(),
        ),
      h(
        "form",
        { key: "form", class: "st-request-decision", on: { submit } },
        fieldsOf(request),
        h(
          "label",
          { key: "reason" },
          "Reason ",
          h("input", {
            class: "form-control form-control-sm",
            name: "why",
            maxlength: MOST_REASON,
            placeholder: "for the person who asks",
            "data-testid": "decision-why",
          }),
        ),
        h(
          "div",
          { key: "buttons", class: "st-request-buttons" },
          this.#submit(number, "approve", "Approve", "st-button st-primary"),
          this.#submit(number, "refuse", "Refuse", "st-button"),
        ),
      ),
      refusal && h("p", { key: "refusal", class: "st-problem", role: "alert" }, clean(refusal)),
    );
  }

  #submit(number, name, words, classes) {
    const props = { key: name, type: "submit", name, class: classes, "data-testid": `decision-${name}` };
    return h("button", { ...props, disabled: this.busy.has(number) }, words);
  }

  async #decide({ number }, what, body) {
    this.busy.add(number);
    this.refusals.delete(number);
    this.changed();
    try {
      await call("POST", `requests/${number}/${what}`, body);
    } catch (error) {
      this.refusals.set(number, `${error.message} ${error.hint ?? ""}`.trim());
    }
    await this.read();
    this.busy.delete(number);
    this.changed();
    this.decided();
  }
}

/** The numbers of GPUs that a change has, each under its name: `quota`, `quota a100`. */
function numbersOf({ wanted }) {
  const found = [];
  for (const field of Object.keys(NUMBERS)) {
    const amount = wanted.edit?.[field];
    if (Number.isInteger(amount)) found.push({ field, type: null, amount });
    else if (amount) {
      for (const [type, number] of Object.entries(amount))
        if (Number.isInteger(number)) found.push({ field, type, amount: number });
    }
  }
  return found.map((each) => ({ ...each, name: each.type === null ? each.field : `${each.field} ${each.type}` }));
}

function hasEnd({ wanted }) {
  return wanted.kind === "project" || wanted.kind === "build";
}

function fieldsOf(request) {
  return [
    numbersOf(request).map(({ field, type, amount, name }) =>
      h(
        "label",
        { key: name },
        `${NUMBERS[field].replace(/^./, (letter) => letter.toUpperCase())}${type === null ? "" : ` ${clean(type)}`} `,
        h("input", {
          class: "form-control form-control-sm",
          type: "number",
          min: 0,
          step: 1,
          required: true,
          name,
          value: String(amount),
          "data-testid": `decision-${clean(name)}`,
        }),
      ),
    ),
    hasEnd(request) &&
      h(
        "label",
        { key: "until" },
        "Until, or empty for good ",
        h("input", {
          type: "datetime-local",
          class: "form-control form-control-sm w-auto",
          name: "until",
          value: fieldTime(request.wanted.edit.until),
          "data-testid": "decision-until",
        }),
      ),
  ];
}

function bodyOf(request, form, refuses) {
  const data = new FormData(form);
  const why = data.get("why");
  if (refuses) return { why };
  const edit = structuredClone(request.wanted.edit ?? {});
  let differs = false;
  for (const { field, type, amount, name } of numbersOf(request)) {
    const typed = Number(data.get(name));
    differs ||= typed !== amount;
    if (type === null) edit[field] = typed;
    else edit[field][type] = typed;
  }
  if (hasEnd(request) && (data.get("until") ?? "") !== fieldTime(edit.until)) {
    edit.until = untilOf(form);
    differs = true;
  }
  return differs ? { why, granted: { ...request.wanted, edit } } : { why };
}
