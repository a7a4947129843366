/** Draining of nodes and GPUs, for admins: a confirmation with a reason, and undraining. */

import { attempted, call } from "../site.js";
import { UndoLine } from "../undo_line.js";
import { untilField, untilOf } from "../until.js";
import { h } from "../visuals/base/dom.js";
import { focusOnce } from "../visuals/base/focus.js";
import { button, submitButton } from "../visuals/base/glyphs.js";
import { clean } from "../visuals/base/words.js";

const WHOLE = "";

export class NodeDrains {
  /** @param changed called when the buttons have to be drawn again; changes of the pool arrive by its stream */
  constructor(changed) {
    this.changed = changed;
    this.asking = null;
    this.what = WHOLE;
    this.busy = new Set();
    this.done = new UndoLine("drain", changed);
  }

  /** The actions of an admin for a node. */
  draw(node) {
    const drained = node.gpus.filter(({ drain }) => drain);
    return [
      node.drain ? this.#undrain(node, null) : this.#drain(node),
      drained.map(({ index }) => this.#undrain(node, index)),
    ];
  }

  #drain(node) {
    const name = clean(node.name);
    const open = this.asking === node.name;
    const toggle = () => this.#ask(open ? null : node.name);
    return [
      button("node-drain", "Drain…", toggle, {
        disabled: this.busy.has(node.name),
        "aria-label": `Drain the node ${name}, or a GPU of it`,
        "aria-expanded": String(open),
      }),
      open && this.#question(node, name),
    ];
  }

  #undrain(node, gpu) {
    const what = nameOf(node, gpu);
    const undrain = () => this.#send(node, "nodes/undrain", { node: node.name, gpu }, `Undrained ${what}.`);
    return button(
      gpu === null ? "node-undrain" : `gpu-undrain-${gpu}`,
      gpu === null ? "Undrain" : `Undrain GPU ${gpu}`,
      undrain,
      { disabled: this.busy.has(node.name), "aria-label": `Undrain ${what}` },
    );
  }

  #question(node, name) {
    const build = node.environment === "build";
    const whole = this.what === WHOLE;
    const words = build
      ? `No new workspace gets ${whole ? "GPUs there; those that run stay" : "this GPU; one that holds it stays"}.`
      : whole
        ? "Nothing new starts there. Its jobs are asked to save and run again by themselves as soon as other GPUs are free."
        : "Nothing new starts on it. A job that holds it is asked to save and runs again by itself as soon as other GPUs are free.";
    const submit = (event) => {
      event.preventDefault();
      const form = new FormData(event.target);
      const what = form.get("what") ?? WHOLE;
      const gpu = what === WHOLE ? null : Number(what);
      const body = {
        node: node.name,
        gpu,
        why: form.get("why"),
        finish: form.has("finish"),
        until: untilOf(event.target),
      };
      return this.#send(node, "nodes/drain", body, `Drained ${nameOf(node, gpu)}.`);
    };
    return h(
      "form",
      { key: "question", class: "st-ask", "data-testid": "node-question", on: { submit } },
      h(
        "p",
        { key: "words", class: "mb-1", "aria-live": "polite" },
        `Drain ${whole ? `the node ${name}` : `GPU ${this.what} of ${name}`}? ${words}`,
      ),
      h(
        "label",
        { key: "why" },
        "Reason, which the jobs' owners see ",
        h("input", {
          class: "form-control form-control-sm",
          name: "why",
          maxlength: 500,
          hook: focusOnce,
          "data-testid": "node-why",
        }),
      ),
      untilField("node-until"),
      node.drains_gpus && node.gpus.length > 1 && this.#choice(node),
      !build &&
        h(
          "label",
          { key: "finish" },
          h("input", { type: "checkbox", name: "finish", "data-testid": "node-finish" }),
          whole ? " Let its jobs finish there" : " Let the job that holds it finish",
        ),
      h(
        "div",
        { key: "buttons" },
        h(
          "button",
          { key: "keep", type: "button", class: "st-button", on: { click: () => this.#ask(null) } },
          "Not now",
        ),
        " ",
        submitButton("node-confirm", whole ? "Drain the node" : `Drain GPU ${this.what}`, {
          class: "st-button st-danger",
          disabled: this.busy.has(node.name),
        }),
      ),
    );
  }

  #choice(node) {
    const gpus = node.gpus.filter(({ drain }) => !drain);
    return h(
      "label",
      { key: "what" },
      "What ",
      h(
        "select",
        {
          class: "form-select form-select-sm",
          name: "what",
          "data-testid": "node-what",
          on: { change: ({ target }) => this.#choose(target.value) },
        },
        h("option", { key: "whole", value: WHOLE, selected: this.what === WHOLE }, "the whole node"),
        gpus.map(({ index }) =>
          h("option", { key: index, value: String(index), selected: this.what === String(index) }, `GPU ${index}`),
        ),
      ),
    );
  }

  #ask(name) {
    this.asking = name;
    this.#choose(WHOLE);
  }

  /** Asks for confirmation for a GPU, by its index as text, or for the whole node. */
  #choose(what) {
    this.what = what;
    this.changed();
  }

  async #send(node, path, body, words) {
    this.busy.add(node.name);
    this.changed();
    const before = this.asking;
    await attempted(async () => {
      const { entry } = await call("POST", path, body);
      this.done.take(words, entry);
      if (this.asking === before) this.asking = null;
    });
    this.busy.delete(node.name);
    this.changed();
  }
}

function nameOf(node, gpu) {
  return gpu === null ? `the node ${clean(node.name)}` : `GPU ${gpu} of ${clean(node.name)}`;
}
