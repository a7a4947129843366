/** The checkpoints of a job: listed, deleted, and continued from as a new job. */

import { h } from "../base/dom.js";
import { button, isFinal, when } from "../base/glyphs.js";
import { amount, clean, clockNow, count, size } from "../base/words.js";

const LOOK_AGAIN_S = 20;
const READ_AGAIN_S = 5;
const MOST_VALUES = 4;
const NONE_YET = "No checkpoints yet. Those that the job saves show here.";
const HINT =
  "One NAME=VALUE a line: an argument of the function, or an option of the command. All else stays as it is.";

export class CheckpointBrowser {
  /**
   * @param call `call(method, path, body)` promises the body of the API's response, or throws with `message` and `status`
   * @param path of the job
   * @param changed called when the view has to be drawn again
   * @param forked called with the new job
   * @param isFold whether it is a fold of a card, closed at first
   */
  constructor(call, path, changed, forked, isFold = false) {
    this.call = call;
    this.path = path;
    this.changed = changed;
    this.forked = forked;
    this.isOpen = !isFold;
    this.list = null;
    this.problem = null;
    this.read = { at: -Infinity, standing: null, busy: false };
    this.opened = null;
    this.#forget();
  }

  #forget() {
    this.opened = null;
    this.typed = "";
    this.notice = null;
    this.sending = false;
    this.key = null;
  }

  /** Reads the list if the job may have saved since; call it at each drawing. */
  follow(job) {
    if (!this.isOpen || this.read.busy || document.hidden || job.trials) return;
    const standing = `${job.state} ${job.attempt} ${job.saved}`;
    const passed = clockNow() - this.read.at;
    const isDue =
      standing === this.read.standing && !this.problem
        ? !isFinal(job.state) && passed >= LOOK_AGAIN_S
        : passed >= READ_AGAIN_S;
    if (isDue) this.#read(standing);
  }

  async #read(standing) {
    this.read = { at: clockNow(), standing, busy: true };
    try {
      this.list = await this.call("GET", `${this.path}/checkpoints`);
      this.problem = null;
    } catch (error) {
      this.problem = error.message;
    }
    this.read.busy = false;
    this.changed();
  }

  /** The list as a fold of a card, read when it is opened. */
  drawFold(job, isOwn) {
    const toggle = ({ target }) => {
      this.isOpen = target.open;
      this.changed();
    };
    const number = this.list?.items.length;
    const words = number ? count(number, "checkpoint") : "none";
    return h(
      "details",
      { key: "checkpoints", class: "st-log-fold", "data-testid": "job-checkpoints", on: { toggle } },
      h(
        "summary",
        { key: "summary" },
        "Checkpoints",
        this.list && h("span", { key: "number", class: "st-muted" }, ` · ${words}`),
      ),
      this.isOpen && this.draw(job, isOwn),
    );
  }

  /** The list, with the form of a fork or the question of a deletion below its checkpoint, as descriptions. */
  draw(job, isOwn) {
    const problem =
      this.problem &&
      h(
        "p",
        { key: "problem", class: "st-notice", role: "status", "data-testid": "checkpoints-problem" },
        clean(this.problem),
      );
    if (this.list === null)
      return problem || h("p", { key: "wait", class: "st-muted", role: "status" }, "Reading the list…");
    const { items, text } = this.list;
    const none = isFinal(job.state) ? clean(text) : NONE_YET;
    if (!items.length)
      return [problem, h("p", { key: "none", class: "st-muted", "data-testid": "no-checkpoints" }, none)];
    return [
      problem,
      h(
        "ul",
        { key: "list", class: "st-files", "data-testid": "checkpoints" },
        items.map((item) => this.#row(item, isOwn)),
      ),
    ];
  }

  #row(item, isOwn) {
    const name = item.step === null ? clean(item.name) : `step ${amount(item.step)}`;
    const values = Object.entries(item.values).slice(0, MOST_VALUES);
    const about = [
      size(item.size),
      item.step !== null && item.by && clean(item.name),
      item.by && clean(item.by),
      ...values.map(([metric, value]) => `${clean(metric)} ${amount(value)}`),
      item.needed && "the job resumes from it",
    ].filter(Boolean);
    const asks = (what) => ({
      "aria-expanded": String(this.#isOpened(item, what)),
      "aria-label": `${what === "fork" ? "Fork" : "Delete"} ${name}`,
    });
    return h(
      "li",
      { key: item.name, "data-testid": "checkpoint-row" },
      h("span", { key: "name", class: "st-file-name", title: clean(item.name) }, name),
      h("span", { key: "about", class: "st-muted" }, when(item.written, clockNow()), ` · ${about.join(" · ")}`),
      isOwn &&
        h(
          "span",
          { key: "actions", class: "st-file-actions" },
          button("checkpoint-fork", "Fork…", () => this.#open(item, "fork"), asks("fork")),
          button("checkpoint-delete", "Delete…", () => this.#open(item, "delete"), asks("delete")),
        ),
      this.#isOpened(item, "fork") && this.#forkForm(item, name),
      this.#isOpened(item, "delete") && this.#question(item, name),
    );
  }

  #isOpened(item, what) {
    return this.opened?.name === item.name && this.opened.what === what;
  }

  #open(item, what) {
    const isOpened = this.#isOpened(item, what);
    this.#forget();
    if (!isOpened) this.opened = { name: item.name, what };
    this.changed();
  }

  #close() {
    this.#forget();
    this.changed();
  }

  #forkForm(item, name) {
    const submit = (event) => {
      event.preventDefault();
      this.#fork(item);
    };
    const input = ({ target }) => {
      this.typed = target.value;
      this.notice = null;
      this.key = null;
    };
    return h(
      "form",
      {
        key: "form",
        class: "st-rerun-form",
        "aria-label": `Fork from ${name}`,
        "data-lm-suppress-shortcuts": "true",
        "data-testid": "fork-form",
        on: { submit },
      },
      h("p", { key: "hint", class: "st-muted" }, HINT),
      h("textarea", {
        key: "arguments",
        rows: 3,
        spellcheck: "false",
        placeholder: "rate=0.01",
        "aria-label": "What differs",
        "data-testid": "fork-arguments",
        on: { input },
      }),
      h(
        "footer",
        { key: "footer" },
        this.#noticed(),
        button("fork-close", "Close", () => this.#close()),
        h(
          "button",
          {
            key: "send",
            type: "submit",
            class: "st-button st-primary",
            disabled: this.sending,
            "data-testid": "fork-send",
          },
          this.sending ? "Copying the checkpoint…" : `Fork from ${name}`,
        ),
      ),
    );
  }

  #question(item, name) {
    const words = item.needed
      ? "The job resumes from it. Without it the job continues from an older one, or begins from the start."
      : "It cannot be brought back.";
    return h(
      "p",
      { key: "question", class: "st-notice", "data-testid": "checkpoint-question" },
      `${words} `,
      button("checkpoint-delete-now", `Delete ${name}`, () => this.#delete(item), { disabled: this.sending }),
      button("checkpoint-keep", "Keep", () => this.#close()),
      this.#noticed(),
    );
  }

  #noticed() {
    return h(
      "span",
      { key: "notice", class: "st-notice st-field-wrong", role: "status", "data-testid": "checkpoint-notice" },
      this.notice && clean(this.notice),
    );
  }

  async #fork(item) {
    if (this.sending) return;
    let differences;
    try {
      differences = argumentsOf(this.typed);
    } catch (error) {
      this.notice = error.message;
      this.changed();
      return;
    }
    this.key ??= `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
    const body = { checkpoint: item.name, arguments: differences, key: this.key };
    const job = await this.#send(() => this.call("POST", `${this.path}/fork`, body));
    if (job) this.forked(job);
  }

  async #delete(item) {
    const body = { names: [item.name], force: item.needed };
    const list = await this.#send(() => this.call("POST", `${this.path}/checkpoints/delete`, body));
    if (list) this.list = list;
    this.changed();
  }

  /** The answer to a request; nothing if it was refused, for the reason that is shown then. */
  async #send(request) {
    Object.assign(this, { sending: true, notice: null });
    this.changed();
    try {
      const answer = await request();
      this.#forget();
      return answer;
    } catch (error) {
      Object.assign(this, { sending: false, notice: error.message });
      return null;
    } finally {
      this.changed();
    }
  }
}

/** The arguments in lines of NAME=VALUE; a value is JSON, or else a text. Throws for another line. */
export function argumentsOf(typed) {
  const lines = typed.split("\n").filter((line) => line.trim());
  return Object.fromEntries(
    lines.map((line) => {
      const [, name, value] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
      if (!name) throw new Error(`“${line.trim().slice(0, 60)}” is not NAME=VALUE, such as rate=0.01.`);
      return [name, jsonOf(value)];
    }),
  );
}

function jsonOf(text) {
  const named = { True: true, False: false, None: null };
  if (Object.hasOwn(named, text)) return named[text];
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
