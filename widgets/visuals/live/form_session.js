/** The values of a form, and the answers of the pool and the kernel about them. Only the user changes values. */

const SETTLED_MS = 350;
const RETRY_MS = 3000;
const NEWS_MS = 10000;
const IDLE_MS = 600000;
const NO_PROJECT = "You are in no project yet, so there is nothing to submit to. An admin puts you into one.";
const NO_FUNCTION = "Define a function in a cell and run it: then it can be chosen here.";
const NO_COMMAND = "Say what to run, such as python train.py.";
const NO_NOTEBOOK = "Choose a notebook.";
/** The name of the field for further arguments, and how the names of arguments begin in refusals. */
const REST = "*";
const ARGUMENT = "arguments.";

/** Sends requests after a pause in typing, one at a time; a change in the meantime sends another one afterwards. */
class Settled {
  constructor(ask) {
    this.ask = ask;
    this.timer = null;
    this.running = null;
    this.wanted = false;
    this.stopped = false;
  }

  want(after = SETTLED_MS) {
    clearTimeout(this.timer);
    this.wanted = true;
    if (!this.stopped) this.timer = setTimeout(() => this.rest(), after);
  }

  /** Sends the pending request at once, and waits until none is pending. */
  async rest() {
    clearTimeout(this.timer);
    while (this.wanted || this.running) {
      if (!this.running) {
        this.wanted = false;
        this.running = this.ask().finally(() => (this.running = null));
      }
      await this.running;
    }
  }

  /** Sends the request again later. */
  retry() {
    clearTimeout(this.timer);
    if (!this.stopped) this.timer = setTimeout(() => this.want(0), RETRY_MS);
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }
}

let formsMade = 0;

export class FormSession {
  /**
   * @param backend promises answers, or throws errors with a message and perhaps a `field`: `form()`, `functions()`,
   *   `check(name, typed)`, `preview(notebook, typed)`, `review(typed)`, `submit({ kind, work, arguments, typed })`,
   *   and `environment` of the same
   */
  constructor(backend) {
    this.backend = backend;
    this.id = `st-form-${(formsMade += 1)}`;
    this.changed = () => {};
    this.form = null;
    this.problem = null;
    this.functions = null;
    this.notebook = { name: "", parameters: [], rest: false, refusal: "" };
    this.kernelProblem = null;
    this.kind = "function";
    this.work = { function: "", command: "", notebook: "" };
    this.arguments = {};
    this.typed = {};
    this.own = new Set();
    this.byHand = new Set();
    this.touched = new Set();
    this.review = { problems: {}, estimate: null, later: "" };
    this.described = { value: null, problem: "" };
    this.faults = {};
    this.reviewedAt = 0;
    this.outdated = false;
    this.usedAt = Date.now();
    this.sending = false;
    this.notice = null;
    this.sent = [];
    this.opening = new Settled(() => this.#open());
    this.reviewing = new Settled(() => this.#review());
    this.checking = new Settled(() => this.#check());
    this.describing = new Settled(() => this.#describe());
  }

  /** Fetches the form again, and everything that depends on it. Values stay. */
  open() {
    this.opening.want(0);
  }

  async #open() {
    try {
      this.form = await this.backend.form();
      this.problem = this.form.person.projects.length ? null : NO_PROJECT;
      for (const field of this.form.fields) this.typed[field.name] ??= field.value;
      this.#keepPreset();
      this.work.notebook ||= this.form.notebooks[0] ?? "";
      if (this.kind === "notebook") this.checking.want(0);
      if (this.problem === null) this.reviewing.want(0);
    } catch (error) {
      this.problem = error.message;
      this.opening.retry();
    }
    this.changed();
  }

  /** Fetches the functions of the kernel again. */
  async refreshFunctions() {
    try {
      this.functions = await this.backend.functions();
      this.kernelProblem = null;
    } catch (error) {
      this.kernelProblem = error.message;
    }
    this.work.function ||= this.functions?.[0]?.name ?? "";
    this.checking.want(0);
    this.describing.want(0);
    this.changed();
  }

  /** The selected function, if the kernel has it. */
  get callee() {
    return this.functions?.find(({ name }) => name === this.work.function) ?? null;
  }

  /** The parameters of the selected function or notebook, as far as they are known. */
  get parameters() {
    if (this.kind === "function") return this.callee?.parameters ?? [];
    return this.kind === "notebook" && this.notebook.name === this.work.notebook ? this.notebook.parameters : [];
  }

  /** The label of the field for further arguments; empty if the work takes none. */
  get restLabel() {
    if (this.kind === "function") return this.callee?.rest ? "Further arguments" : "";
    return this.kind === "notebook" && this.notebook.rest ? "Arguments" : "";
  }

  /** What the typed arguments belong to. */
  get #called() {
    return `${this.kind} ${this.work[this.kind]}`;
  }

  /** The typed arguments of the selected function or notebook. */
  get given() {
    return (this.arguments[this.#called] ??= {});
  }

  setKind(kind) {
    this.kind = kind;
    this.faults = {};
    this.#edited();
    this.checking.want(0);
    this.describing.want(0);
  }

  setWork(kind, value) {
    this.work[kind] = value;
    this.faults = {};
    this.#edited();
    this.checking.want();
    this.describing.want();
  }

  setArgument(name, value) {
    this.given[name] = value;
    this.touched.add(`${this.#called} ${name}`);
    this.#edited();
    this.checking.want();
  }

  /** The presets of the chosen project. */
  get presets() {
    return (this.form?.presets ?? []).filter(({ projects }) => projects.includes(this.typed.project));
  }

  /** The chosen preset, or null. */
  get preset() {
    return this.presets.find(({ name }) => name === this.typed.preset) ?? null;
  }

  /** Sets an option; `own`: the value is none of the choices. A preset fills in what the user has not typed. */
  setOption(name, value, own = false) {
    const before = this.preset;
    this.typed[name] = value;
    this.own[own ? "add" : "delete"](name);
    if (name !== "preset") this.byHand.add(name);
    this.#keepPreset();
    if (this.preset !== before) this.#refill(before);
    this.#edited();
    this.reviewing.want();
    this.describing.want();
  }

  /** Gives up a chosen preset that the chosen project does not have. */
  #keepPreset() {
    if (this.typed.preset && this.preset === null) this.typed.preset = "";
  }

  /** Fills in the chosen preset; what the one `before` filled in, and the user left, begins anew. */
  #refill(before) {
    const values = this.preset?.values ?? {};
    for (const { name, value, choices } of this.form.fields) {
      if (this.byHand.has(name) || !(name in values || name in (before?.values ?? {}))) continue;
      const text = values[name] ?? value;
      const isOwn = choices.length > 0 && choices.every((choice) => choice.value !== text);
      this.typed[name] = text;
      this.own[isOwn ? "add" : "delete"](name);
    }
  }

  #edited() {
    this.usedAt = Date.now();
    this.notice = null;
    this.changed();
  }

  /** Records use of the form, which keeps its estimate up to date for a while. */
  use() {
    this.usedAt = Date.now();
    this.heardNews();
  }

  /** Whether the pool has changed since the estimate was asked for, and nothing asks for it again. */
  get isOld() {
    return this.outdated && !this.reviewing.wanted && !this.reviewing.running;
  }

  /**
   * Handles a change of the pool: requests the estimate again, at a limited rate, and only for a form that is `inSight`
   * and in use. Of any other form the estimate is old then.
   */
  heardNews(inSight = true) {
    this.outdated = true;
    if (!inSight || this.form === null || this.reviewing.wanted || Date.now() - this.usedAt > IDLE_MS) return;
    this.reviewing.want(Math.max(SETTLED_MS, this.reviewedAt + NEWS_MS - Date.now()));
  }

  /** The typed options; an empty field means the default, and is sent if the preset would fill it in again. */
  get filled() {
    const values = this.preset?.values ?? {};
    return Object.fromEntries(Object.entries(this.typed).filter(([name, text]) => text.trim() || name in values));
  }

  async #review() {
    this.reviewedAt = Date.now();
    this.outdated = false;
    const request = JSON.stringify(this.filled);
    let review;
    try {
      review = await this.backend.review(JSON.parse(request));
    } catch (error) {
      review = { problems: {}, estimate: null, later: error.message };
    }
    if (request !== JSON.stringify(this.filled)) return;
    this.review = review.later ? { ...review, problems: this.review.problems, estimate: this.review.estimate } : review;
    if (review.later && Date.now() - this.usedAt < IDLE_MS) this.reviewing.retry();
    this.changed();
  }

  async #check() {
    const { kind } = this;
    if (kind === "command" || !this.work[kind] || (kind === "function" && this.callee === null)) return;
    const request = JSON.stringify([this.#called, this.given]);
    const isOld = () => request !== JSON.stringify([this.#called, this.given]);
    await (kind === "function" ? this.#checkCall(isOld) : this.#look(isOld));
    this.changed();
  }

  async #checkCall(isOld) {
    try {
      const faults = await this.backend.check(this.work.function, { ...this.given });
      if (isOld()) return;
      this.faults = faults;
      this.kernelProblem = null;
    } catch (error) {
      this.kernelProblem = error.message;
    }
  }

  /** Fetches the parameters of the notebook. While that fails those known stay: sending names the fault. */
  async #look(isOld) {
    const name = this.work.notebook;
    const found = await this.backend.preview(name, { ...this.given }).catch(() => null);
    if (found === null || isOld()) return;
    this.notebook = { name, parameters: found.parameters, rest: found.rest, refusal: found.refusal };
    this.faults = found.problems;
  }

  /** The arguments to send: those of a notebook that it still has. */
  get argumentsToSend() {
    if (this.kind !== "notebook") return this.kind === "function" ? this.given : {};
    const known = new Set([...this.parameters.map(({ name }) => name), this.restLabel && REST]);
    return Object.fromEntries(Object.entries(this.given).filter(([name]) => known.has(name)));
  }

  /** Fetches the environment of the job; none as long as the work is not filled in. */
  async #describe() {
    const { kind, filled: typed } = this;
    const work = this.work[kind].trim();
    const request = JSON.stringify([kind, work, typed]);
    let described = { value: null, problem: "" };
    try {
      if (work)
        described = { value: await this.backend.environment({ kind, work, arguments: {}, typed }), problem: "" };
    } catch (error) {
      described = { value: null, problem: error.message };
    }
    if (request !== JSON.stringify([this.kind, this.work[this.kind].trim(), this.filled])) {
      this.describing.want();
      return;
    }
    this.described = described;
    this.changed();
  }

  /** The error of an argument, once the user has edited it. */
  faultOf(name) {
    return this.touched.has(`${this.#called} ${name}`) || name === REST ? (this.faults[name] ?? "") : "";
  }

  /** The reason why the form cannot be submitted, or null if it can. */
  get blocked() {
    if (this.problem !== null) return this.problem;
    if (this.form === null) return "Connecting to the pool…";
    const missing = {
      function: () => this.#missingCall(),
      command: () => (this.work.command.trim() ? null : NO_COMMAND),
      notebook: () => (this.work.notebook ? this.notebook.refusal || null : NO_NOTEBOOK),
    };
    return missing[this.kind]() ?? this.#mistakes();
  }

  #missingCall() {
    if (this.kernelProblem !== null) return this.kernelProblem;
    if (this.functions === null) return "Asking the kernel for its functions…";
    if (!this.functions.length) return NO_FUNCTION;
    if (this.callee === null)
      return `The kernel has no function ${this.work.function} any more: run the cell that defines it.`;
    return null;
  }

  /** The labels of the fields that show a mistake; without one, a mistake that no field shows. */
  #mistakes() {
    const { problems } = this.review;
    const wrong = Object.keys(this.faults).filter((name) => this.faultOf(name));
    const fields = this.form.fields.filter(({ name }) => problems[name]);
    const labels = [
      ...wrong.map((name) => (name === REST ? this.restLabel || "Arguments" : name)),
      ...fields.map(({ label }) => label),
    ];
    if (labels.length) return `Correct first: ${labels.join(", ")}.`;
    return Object.values(this.faults)[0] ?? Object.values(problems)[0] ?? null;
  }

  /** Checks the typed values, and promises whether they can be submitted. */
  async checked() {
    if (this.kind === "notebook") this.checking.want(0);
    await Promise.all([this.reviewing.rest(), this.kind === "command" ? null : this.checking.rest()]);
    return this.blocked === null;
  }

  /** Submits once the typed values were checked. */
  async submit() {
    if (this.sending) return;
    this.sending = true;
    this.changed();
    if (await this.checked()) await this.#send();
    this.sending = false;
    this.changed();
  }

  async #send() {
    const { kind, filled: typed } = this;
    try {
      const sent = await this.backend.submit({ kind, work: this.work[kind], arguments: this.argumentsToSend, typed });
      this.sent.unshift(sent);
      this.notice = { good: true, words: ["Submitted.", ...sent.notes].join(" ") };
      this.reviewing.want(0);
    } catch (error) {
      this.refuse(error);
    }
  }

  /** Takes the refusal of a submission: beside the field that it names if the form has it, else as the notice. */
  refuse({ message, field }) {
    this.notice = { good: false, words: message };
    const argument = field?.startsWith(ARGUMENT) ? field.slice(ARGUMENT.length) : null;
    if (argument in this.given) {
      this.touched.add(`${this.#called} ${argument}`);
      this.faults = { ...this.faults, [argument]: message };
    } else if (this.form.fields.some(({ name }) => name === field))
      this.review = { ...this.review, problems: { ...this.review.problems, [field]: message } };
  }

  stop() {
    this.opening.stop();
    this.reviewing.stop();
    this.checking.stop();
    this.describing.stop();
  }

  /** Resumes after a stop. */
  resume() {
    this.opening.stopped = false;
    this.reviewing.stopped = false;
    this.checking.stopped = false;
    this.describing.stopped = false;
  }
}
