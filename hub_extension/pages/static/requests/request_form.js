/** The form in which a person asks for more: quota of a project, build GPUs, a membership, limits of a job. */

import { call, site } from "../site.js";
import { untilField, untilOf } from "../until.js";
import { h } from "../visuals/base/dom.js";
import { button, submitButton } from "../visuals/base/glyphs.js";
import { clean } from "../visuals/base/words.js";
import { wishWords } from "./quota_wish.js";

const KINDS = [
  ["project", "a higher quota of a project"],
  ["build", "more build GPUs for my notebooks"],
  ["membership", "membership in a project"],
  ["job", "more for a waiting job than its project allows"],
];
const MOST_REASON = 500;

export class RequestForm {
  /**
   * @param changed called when the form has to be drawn again
   * @param asked called after a request was accepted
   */
  constructor(changed, asked) {
    this.changed = changed;
    this.asked = asked;
    this.kind = null;
    this.project = null;
    this.wish = null;
    this.busy = false;
    this.refusal = null;
  }

  /**
   * The button that opens the form, or the form. `mine`: names of the viewer's projects, `queue`: waiting jobs,
   * `wish`: the quota that the form begins with, as `wishOf` has it, or null.
   */
  draw(pool, mine, queue, wish = null) {
    const kind = mine.length ? "project" : "membership";
    const open = () => this.#set({ kind, project: wish?.project ?? null, wish, refusal: null });
    if (this.kind === null)
      return h(
        "p",
        { key: "ask", class: "mb-2" },
        button("request-ask", wish ? wishWords(wish) : "Ask for more…", open, { class: "st-button" }),
      );
    const submit = (event) => {
      event.preventDefault();
      return this.#send(event.target);
    };
    return h(
      "form",
      { key: "asking", class: "st-ask st-request-form", "data-testid": "request-form", on: { submit } },
      h("p", { key: "words", class: "mb-1" }, "Administrators, and leads for what they may change, decide about it."),
      !this.wish && choice("kind", "I ask for ", KINDS, this.kind, (kind) => this.#set({ kind, project: null })),
      this.#fields(pool, mine, queue),
      h(
        "label",
        { key: "why" },
        "Reason, for those who decide ",
        h("input", {
          class: "form-control form-control-sm",
          name: "why",
          required: true,
          maxlength: MOST_REASON,
          "data-testid": "request-why",
        }),
      ),
      this.refusal && h("p", { key: "refusal", class: "st-problem", role: "alert" }, clean(this.refusal)),
      h(
        "div",
        { key: "buttons" },
        button("request-not-now", "Not now", () => this.#set({ kind: null })),
        " ",
        submitButton("request-send", "Send the request", { disabled: this.busy }),
      ),
    );
  }

  #fields(pool, mine, queue) {
    const names = pool.projects.map(({ name }) => name);
    const choose = (project) => this.#set({ project });
    if (this.kind === "membership") {
      const others = names.filter((name) => !mine.includes(name));
      return others.length
        ? projectChoice(others, this.project, choose)
        : h("p", { key: "none", class: "st-muted mb-1" }, "You are in all projects.");
    }
    if (this.kind === "job")
      return jobFields(queue.filter(({ user, state }) => user === site.user && state !== "running"));
    if (this.kind === "build")
      return [gpuFields(Object.keys(pool.build_by_type ?? {}), () => null), untilField("request-until")];
    if (!mine.length) return h("p", { key: "none", class: "st-muted mb-1" }, "You are in no project yet: ask for one.");
    const name = this.project ?? mine[0];
    const project = pool.projects.find((each) => each.name === name);
    const types = Object.keys(project?.by_type ?? {});
    const wished = this.wish?.project === name ? this.wish : null;
    const quotaOf = (type) => {
      if (wished?.type === type) return wished.gpus;
      return type === null ? project?.quota : null;
    };
    return [projectChoice(mine, name, choose), gpuFields(types, quotaOf), untilField("request-until")];
  }

  #set(values) {
    Object.assign(this, values);
    this.changed();
  }

  async #send(form) {
    const data = new FormData(form);
    this.#set({ busy: true, refusal: null });
    try {
      await call("POST", "requests", { wanted: this.#wanted(data, form), why: data.get("why") });
      this.#set({ busy: false, kind: null });
      this.asked();
    } catch (error) {
      this.#set({ busy: false, refusal: `${error.message} ${error.hint ?? ""}`.trim() });
    }
  }

  #wanted(data, form) {
    const { kind } = this;
    const project = data.get("project");
    if (kind === "membership") return { kind, project };
    if (kind === "job") {
      const edit = {};
      if (data.get("priority")) edit.priority = Number(data.get("priority"));
      if (data.get("time_limit")) edit.time_limit = data.get("time_limit");
      return { kind, job: data.get("job"), edit };
    }
    const gpus = gpusOf(data);
    const until = untilOf(form);
    return kind === "build"
      ? { kind, edit: { build_quota: gpus, until } }
      : { kind, project, edit: { quota: gpus, until } };
  }
}

/** The typed numbers of GPUs: one, or a table by type without those that were left empty. */
export function gpusOf(data) {
  const typed = [...data].filter(([name, text]) => name.startsWith("gpus") && text !== "");
  if (typed.length === 1 && typed[0][0] === "gpus") return Number(typed[0][1]);
  return Object.fromEntries(typed.map(([name, text]) => [name.slice("gpus ".length), Number(text)]));
}

/** Fields for numbers of GPUs; `firstOf(type)` is the one that a field begins with, null for none. */
function gpuFields(types, firstOf) {
  return (types.length ? types : [null]).map((type) =>
    h(
      "label",
      { key: `gpus ${type}` },
      type === null ? "GPUs " : `${clean(type)} GPUs `,
      h("input", {
        class: "form-control form-control-sm w-auto",
        type: "number",
        min: 0,
        step: 1,
        required: type === null,
        name: type === null ? "gpus" : `gpus ${type}`,
        placeholder: type === null ? "" : "as it is",
        value: firstOf(type) ?? "",
        "data-testid": type === null ? "request-gpus" : `request-gpus-${clean(type)}`,
      }),
    ),
  );
}

function projectChoice(names, chosen, choose) {
  return choice(
    "project",
    "Project ",
    names.map((name) => [name, clean(name)]),
    chosen ?? names[0],
    choose,
  );
}

function jobFields(jobs) {
  if (!jobs.length) return h("p", { key: "none", class: "st-muted mb-1" }, "None of your jobs waits.");
  const field = (name, label, hint) =>
    h(
      "label",
      { key: name },
      label,
      h("input", {
        class: "form-control form-control-sm w-auto",
        name,
        placeholder: hint,
        inputmode: name === "priority" ? "numeric" : null,
        pattern: name === "priority" ? "[0-9]+" : null,
        "data-testid": `request-${name}`,
      }),
    );
  return [
    choice(
      "job",
      "Job ",
      jobs.map(({ id, name }) => [id, `${clean(name || id)} (${id})`]),
      jobs[0].id,
      () => {},
    ),
    field("priority", "Priority, or empty ", "such as 90"),
    field("time_limit", "Time limit, or empty ", "such as 2d"),
  ];
}

function choice(name, label, options, chosen, choose) {
  return h(
    "label",
    { key: name },
    label,
    h(
      "select",
      {
        class: "form-select form-select-sm w-auto",
        name,
        "data-testid": `request-${name}`,
        on: { change: ({ target }) => choose(target.value) },
      },
      options.map(([value, words]) => h("option", { key: `is ${value}`, value, selected: value === chosen }, words)),
    ),
  );
}
