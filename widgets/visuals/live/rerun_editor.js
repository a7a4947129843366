/** The typed options and arguments of a rerun or a fork, and the pool's answers about them. */

const ARGUMENT = "arguments.";

const GONE = "fork_gone";

/** What the editor keeps of a refusal; `isGone`: the checkpoint from which a fork would run again is not there any more. */
const refusal = ({ message, code }) => ({ notice: message, isGone: code === GONE });

let editorsMade = 0;

export class RerunEditor {
  /**
   * @param call `call(method, path, body)` promises the body of the API's response, or throws with `message` and `field`
   * @param id the job
   * @param changed called when the form has to be drawn again
   * @param sent called with the accepted job
   */
  constructor(call, id, changed, sent) {
    this.call = call;
    this.path = `jobs/${encodeURIComponent(id)}`;
    this.changed = changed;
    this.sent = sent;
    this.id = `st-rerun-${(editorsMade += 1)}`;
    this.isOpen = false;
    this.sending = false;
    this.opened = 0;
    this.#forget();
  }

  #forget() {
    this.checkpoint = null;
    this.form = null;
    this.typed = {};
    this.own = new Set();
    this.removed = new Set();
    this.added = [];
    this.review = { problems: {} };
    this.notice = null;
    this.isGone = false;
    this.fromStart = false;
    this.key = null;
  }

  /**
   * Opens the form, filled in as the job was submitted.
   * @param checkpoint that the new job continues from: its `name`, and the `words` for it; without it the job runs again,
   *   a fork from its own checkpoint unless `fromStart`
   */
  async open(checkpoint = null, fromStart = false) {
    this.#forget();
    Object.assign(this, { checkpoint, fromStart });
    this.isOpen = true;
    const turn = (this.opened += 1);
    this.changed();
    try {
      const given = { ...(checkpoint && { checkpoint: checkpoint.name }), ...(fromStart && { from_start: "true" }) };
      const query = new URLSearchParams(given).toString();
      const form = await this.call("GET", `${this.path}/rerun${query && `?${query}`}`);
      if (turn === this.opened) this.#fill(form);
    } catch (error) {
      if (turn === this.opened) Object.assign(this, { isOpen: false, ...refusal(error) });
    }
    this.changed();
  }

  #fill(form) {
    const named = form.arguments.map((field) => ({ ...field, name: `${ARGUMENT}${field.name}`, argument: field.name }));
    this.form = { ...form, fields: [...named, ...form.fields] };
    this.typed = Object.fromEntries(this.form.fields.map(({ name, value }) => [name, value]));
  }

  close() {
    this.isOpen = false;
    this.opened += 1;
    this.changed();
  }

  setOption(name, value, own = false) {
    this.typed[name] = value;
    this.own[own ? "add" : "delete"](name);
    this.#edited(name);
  }

  /** Leaves an argument of a command out of the new job, or keeps it after all. */
  setRemoved(name, removed) {
    this.removed[removed ? "add" : "delete"](name);
    this.#edited(name);
  }

  /** Adds a line for an option that the command does not have yet. */
  addOption() {
    this.added.push({ name: "", value: "" });
    this.changed();
  }

  /** Sets the `name` or the `value` of an added option. */
  setAdded(place, changes) {
    Object.assign(this.added[place], changes);
    this.#edited();
  }

  dropAdded(place) {
    this.added.splice(place, 1);
    this.#edited();
  }

  #edited(name) {
    delete this.review.problems[name];
    this.notice = null;
    this.key = null;
    this.changed();
  }

  /** The fields whose values have changed. */
  get #changed() {
    const fields = this.isOpen ? (this.form?.fields ?? []) : [];
    return fields.filter(({ name, value }) => !this.removed.has(name) && this.typed[name].trim() !== value.trim());
  }

  /** The options whose values have changed. */
  get differences() {
    const options = this.#changed.filter(({ argument }) => !argument);
    return Object.fromEntries(options.map(({ name }) => [name, this.typed[name]]));
  }

  /** The arguments whose values have changed; null for those that are removed, "true" for flags that are added. */
  get changedArguments() {
    const own = this.#changed.filter(({ argument }) => argument);
    const removed = this.isOpen ? (this.form?.fields ?? []).filter(({ name }) => this.removed.has(name)) : [];
    const added = this.added.map(({ name, value }) => [name.trim(), value.trim()]).filter(([name]) => name);
    return Object.fromEntries([
      ...removed.map(({ argument }) => [argument, null]),
      ...own.map(({ name, argument }) => [argument, this.typed[name]]),
      ...added.map(([name, value]) => [/^[-+]/.test(name) ? name : `--${name}`, value || "true"]),
    ]);
  }

  /** Submits the rerun or the fork. A repeated request after a lost answer creates no second job. */
  async send() {
    if (this.sending) return;
    this.sending = true;
    Object.assign(this, { notice: null, isGone: false });
    this.key ??= `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
    this.changed();
    try {
      const changes = { typed: this.differences, arguments: this.changedArguments, key: this.key };
      const job = await (this.checkpoint
        ? this.call("POST", `${this.path}/fork`, { ...changes, checkpoint: this.checkpoint.name })
        : this.call("POST", `${this.path}/rerun`, { ...changes, from_start: this.fromStart }));
      this.#forget();
      this.isOpen = false;
      this.sent(job);
    } catch (error) {
      if (this.isOpen && this.form?.fields.some(({ name }) => name === error.field))
        this.review.problems[error.field] = error.message;
      else Object.assign(this, refusal(error));
    }
    this.sending = false;
    this.changed();
  }
}
